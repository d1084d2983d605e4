#include "gpu/cuda/gemm_tensor.cuh"

namespace tutti::cuda {
namespace {

/// Values whose products need no scale.
struct Halves {
  using Sum = float;
  struct Row {};
  struct Column {};
  static __device__ Row row(const GemmCall& /*call*/, int64_t /*row*/) { return {}; }
  static __device__ Column column(const GemmCall& /*call*/, int64_t /*column*/) { return {}; }
  static __device__ float value(Row /*row*/, Column /*column*/, Sum sum) { return sum; }
};

template <bool quads>
struct Bf16 : Halves {
  using Rows = RoundedRows<Bf16, quads>;
  static __device__ uint32_t pack(float low, float high) { return pack_bf16(low, high); }
  static __device__ void multiply(Sum (&sums)[4], const uint32_t (&x)[4], const uint32_t (&w)[2]) {
    mma_bf16(sums, x, w);
  }
};

template <bool quads>
struct F16 : Halves {
  using Rows = RoundedRows<F16, quads>;
  static __device__ uint32_t pack(float low, float high) { return pack_f16(low, high); }
  static __device__ void multiply(Sum (&sums)[4], const uint32_t (&x)[4], const uint32_t (&w)[2]) {
    mma_f16(sums, x, w);
  }
};

struct Int8 {
  using Sum = int32_t;
  using Rows = CodeRows;
  using Row = RowScale;
  struct Column {
    float scale;
    int32_t sum;
  };
  static __device__ Row row(const GemmCall& call, int64_t row) { return call.coded.scales[row]; }
  static __device__ Column column(const GemmCall& call, int64_t column) {
    return {call.weight_scales[column], call.weight_sums[column]};
  }
  static __device__ void multiply(Sum (&sums)[4], const uint32_t (&x)[4], const uint32_t (&w)[2]) {
    mma_int8(sums, x, w);
  }
  /// Rounded as on the CPU, so that results are the same to the bit.
  static __device__ float value(const Row& row, const Column& column, Sum sum) {
    const Sum exact = sum - row.zero * column.sum;
    return static_cast<float>(exact) * column.scale * row.scale;
  }
};

template <template <bool> class Operand>
int launch_halves(Queue* queue, const GemmCall& call) {
  return has_quads(call) ? launch_tiles<Operand<true>>(queue, call)
                         : launch_tiles<Operand<false>>(queue, call);
}

}  // namespace

int gemm_bf16(Queue* queue, const GemmCall& call) { return launch_halves<Bf16>(queue, call); }
int gemm_f16(Queue* queue, const GemmCall& call) { return launch_halves<F16>(queue, call); }
int gemm_int8(Queue* queue, const GemmCall& call) { return launch_tiles<Int8>(queue, call); }

}  // namespace tutti::cuda
