#include "gpu/cuda/gemm_tensor.cuh"

namespace tutti::cuda {
namespace {

struct F8 {
  using Sum = float;
  using Rows = CodeRows;
  struct Row {
    float scale;
  };
  using Column = Row;
  static __device__ Row row(const GemmCall& call, int64_t row) { return {call.coded.scales[row].scale}; }
  static __device__ Column column(const GemmCall& call, int64_t column) {
    return {call.weight_scales[column]};
  }
  static __device__ void multiply(Sum (&sums)[4], const uint32_t (&x)[4], const uint32_t (&w)[2]) {
    mma_f8e4m3(sums, x, w);
  }
  static __device__ float value(const Row& row, const Column& column, Sum sum) {
    return sum * column.scale * row.scale;
  }
};

}  // namespace

int gemm_f8(Queue* queue, const GemmCall& call) { return launch_tiles<F8>(queue, call); }

int can_multiply(int device, MatrixType type, int* can) {
  *can = 1;
  return type == MatrixType::f8e4m3 ? has_f8(device, gemm_tiles<F8>, can) : 0;
}

}  // namespace tutti::cuda
