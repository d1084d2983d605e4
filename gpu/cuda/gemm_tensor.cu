#include "gpu/cuda/gemm_tensor.cuh"

namespace tutti::cuda {
namespace {

struct Bf16 {
  using Sum = float;
  using Rows = RoundedRows<Bf16>;
  static __device__ uint32_t pack(float low, float high) { return pack_bf16(low, high); }
  static __device__ void multiply(Sum (&sums)[4], const uint32_t (&x)[4], const uint32_t (&w)[2]) {
    mma_bf16(sums, x, w);
  }
  static __device__ float value(const GemmCall& /*call*/, int64_t /*row*/, int64_t /*column*/, Sum sum) {
    return sum;
  }
};

struct F16 : Bf16 {
  using Rows = RoundedRows<F16>;
  static __device__ uint32_t pack(float low, float high) { return pack_f16(low, high); }
  static __device__ void multiply(Sum (&sums)[4], const uint32_t (&x)[4], const uint32_t (&w)[2]) {
    mma_f16(sums, x, w);
  }
};

struct Int8 {
  using Sum = int32_t;
  using Rows = CodeRows;
  static __device__ void multiply(Sum (&sums)[4], const uint32_t (&x)[4], const uint32_t (&w)[2]) {
    mma_int8(sums, x, w);
  }
  /// Rounded as on the CPU, so that results are the same to the bit.
  static __device__ float value(const GemmCall& call, int64_t row, int64_t column, Sum sum) {
    const RowScale meaning = call.coded.scales[row];
    const Sum exact = sum - meaning.zero * call.weight_sums[column];
    return static_cast<float>(exact) * call.weight_scales[column] * meaning.scale;
  }
};

}  // namespace

int gemm_bf16(Queue* queue, const GemmCall& call) { return launch_tiles<Bf16>(queue, call); }
int gemm_f16(Queue* queue, const GemmCall& call) { return launch_tiles<F16>(queue, call); }
int gemm_int8(Queue* queue, const GemmCall& call) { return launch_tiles<Int8>(queue, call); }

}  // namespace tutti::cuda
