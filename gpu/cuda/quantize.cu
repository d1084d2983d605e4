#include "gpu/cuda/gemm_input.cuh"
#include "gpu/cuda/reduce.cuh"
#include "gpu/float8.hpp"

namespace tutti::cuda {
namespace {

constexpr int rows_per_block = 4;
constexpr int codes_per_word = 4;

/// A row's least and largest value with 0 between them. Comparisons lose a NaN, `probe` does not: it is NaN
/// where a value is not finite, else 0.
struct RowRange {
  float low = 0.0F;
  float high = 0.0F;
  float probe = 0.0F;

  __device__ void add(float value) {
    low = Smaller()(value, low);
    high = Larger()(value, high);
    probe += value * 0.0F;
  }
  /// Of the rows' parts that the warp's threads have seen.
  __device__ void join() {
    low = warp_reduce(low, Smaller());
    high = warp_reduce(high, Larger());
    probe = warp_reduce(probe, Add());
  }
};

/// Of a scale that makes a row that is not finite visible.
__device__ float nan() { return std::bit_cast<float>(0x7FC00000U); }

class Float8 {
 public:
  __device__ explicit Float8(const RowRange& range) {
    const float amax = Larger()(range.high, -range.low);
    const float scale = float8_e4m3_scale(amax);
    finite_ = range.probe == 0.0F;
    scale_ = finite_ ? scale : nan();
    inverse_ = 1.0F / scale;
  }
  [[nodiscard]] __device__ RowScale meaning() const { return {scale_, 0}; }
  [[nodiscard]] __device__ uint32_t code(float value) const {
    return finite_ ? to_float8_e4m3(value * inverse_) : 0U;
  }

 private:
  float scale_, inverse_;
  bool finite_;
};

/// As gpu/cpu/row_quantizer.cpp: the same operations, so that the codes are the same.
class Unsigned8 {
 public:
  __device__ explicit Unsigned8(const RowRange& range) {
    constexpr float smallest = 1e-30F;
    constexpr float largest = 0x1.fffffep127F;
    constexpr float levels = 255.0F;
    const float extent = range.high - range.low;
    coded_ = range.probe == 0.0F && extent >= smallest && extent <= largest;
    inverse_ = coded_ ? levels / extent : 0.0F;
    zero_ = coded_ ? nearest(-range.low * inverse_) : 0;
    scale_ = coded_ ? extent / levels : (range.probe == 0.0F && extent < smallest ? 0.0F : nan());
  }
  [[nodiscard]] __device__ RowScale meaning() const { return {scale_, zero_}; }
  [[nodiscard]] __device__ uint32_t code(float value) const {
    if (!coded_) return 0U;
    const int32_t code = nearest(value * inverse_) + zero_;
    return static_cast<uint32_t>(code < 0 ? 0 : (code > 255 ? 255 : code));
  }

 private:
  float scale_, inverse_;
  int32_t zero_;
  bool coded_;
};

// One warp a row.
template <class Codes>
__global__ void quantize(QuantizeCall call) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * rows_per_block + threadIdx.y;
  if (row >= call.rows) return;
  const float* const x = row_of(call.x, call.first_row + row);
  RowRange range;
  for (int64_t k = threadIdx.x; k < call.in; k += warp_threads) range.add(x[offset_of(call.x, k)]);
  range.join();
  const Codes codes(range);
  if (threadIdx.x == 0) call.out.scales[row] = codes.meaning();
  const int64_t words = words_of(call.type, call.in);
  for (int64_t word = threadIdx.x; word < words; word += warp_threads) {
    uint32_t packed = 0;
#pragma unroll
    for (int i = 0; i < codes_per_word; ++i) {
      const int64_t k = word * codes_per_word + i;
      if (k < call.in) packed |= codes.code(x[offset_of(call.x, k)]) << (8 * i);
    }
    call.out.words[row * words + word] = packed;
  }
}

template <class Codes>
int launch_rows(Queue* queue, const QuantizeCall& call) {
  return launch(queue, quantize<Codes>, dim3(blocks_for(call.rows, rows_per_block)),
                dim3(warp_threads, rows_per_block), call);
}

}  // namespace

int quantize_rows(Queue* queue, const QuantizeCall& call) {
  return call.type == MatrixType::f8e4m3 ? launch_rows<Float8>(queue, call)
                                         : launch_rows<Unsigned8>(queue, call);
}

}  // namespace tutti::cuda
