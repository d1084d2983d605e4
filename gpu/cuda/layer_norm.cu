#include "gpu/cuda/reduce.cuh"
#include "gpu/cuda/spread.cuh"

namespace tutti::cuda {
namespace {

constexpr int rows_per_block = 4;

/// A row that registers hold: all of its values are on their way at once, and are read once.
template <int slots>
struct ShortRow {
  static constexpr int most = slots * warp_threads;
  Spread<slots> values;
  int cols;

  __device__ ShortRow(const float* x, int64_t count) : cols(static_cast<int>(count)) {
    for_each([&](float& value, int c) { value = x[c]; });
  }
  template <class Step>
  __device__ void for_each(Step step) {
    for_each_dimension(values, cols, step);
  }
};

struct LongRow {
  const float* x;
  int64_t cols;

  __device__ LongRow(const float* values, int64_t count) : x(values), cols(count) {}
  template <class Step>
  __device__ void for_each(Step step) const {
    for (int64_t c = threadIdx.x; c < cols; c += warp_threads) step(x[c], c);
  }
};

// One warp a row.
template <class Row>
__global__ void layer_norm_rows(const float* x, int64_t rows, int64_t cols, const float* gamma,
                                const float* beta, float eps, float* y) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * rows_per_block + threadIdx.y;
  if (index >= rows) return;
  Row row(x + index * cols, cols);
  y += index * cols;
  float sum = 0.0F;
  row.for_each([&](float value, int64_t) { sum += value; });
  const float mean = warp_reduce(sum, Add()) / static_cast<float>(cols);
  float squares = 0.0F;
  row.for_each([&](float value, int64_t) { squares = multiply_add(value - mean, value - mean, squares); });
  const float istd = 1.0F / sqrtf(warp_reduce(squares, Add()) / static_cast<float>(cols) + eps);
  row.for_each(
      [&](float value, int64_t c) { y[c] = multiply_add((value - mean) * istd, gamma[c], beta[c]); });
}

}  // namespace

int layer_norm(Queue* queue, const float* x, int64_t rows, int64_t cols, const float* gamma,
               const float* beta, float eps, float* y) {
  auto* kernel = layer_norm_rows<LongRow>;
  if (cols <= ShortRow<16>::most) kernel = layer_norm_rows<ShortRow<16>>;
  if (cols <= ShortRow<8>::most) kernel = layer_norm_rows<ShortRow<8>>;
  return launch(queue, kernel, dim3(blocks_for(rows, rows_per_block)), dim3(warp_threads, rows_per_block), x,
                rows, cols, gamma, beta, eps, y);
}

}  // namespace tutti::cuda
