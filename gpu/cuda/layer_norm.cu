#include "gpu/cuda/reduce.cuh"

namespace tutti::cuda {
namespace {

constexpr int rows_per_block = 4;

// One warp a row.
__global__ void layer_norm_rows(const float* x, int64_t rows, int64_t cols, const float* gamma,
                                const float* beta, float eps, float* y) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * rows_per_block + threadIdx.y;
  if (row >= rows) return;
  x += row * cols;
  y += row * cols;
  float sum = 0.0F;
  for (int64_t c = threadIdx.x; c < cols; c += warp_threads) sum += x[c];
  const float mean = warp_reduce(sum, Add()) / static_cast<float>(cols);
  float squares = 0.0F;
  for (int64_t c = threadIdx.x; c < cols; c += warp_threads) {
    const float centred = x[c] - mean;
    squares = multiply_add(centred, centred, squares);
  }
  const float istd = 1.0F / sqrtf(warp_reduce(squares, Add()) / static_cast<float>(cols) + eps);
  for (int64_t c = threadIdx.x; c < cols; c += warp_threads) {
    y[c] = multiply_add((x[c] - mean) * istd, gamma[c], beta[c]);
  }
}

}  // namespace

int layer_norm(Queue* queue, const float* x, int64_t rows, int64_t cols, const float* gamma,
               const float* beta, float eps, float* y) {
  return launch(queue, layer_norm_rows, dim3(blocks_for(rows, rows_per_block)),
                dim3(warp_threads, rows_per_block), x, rows, cols, gamma, beta, eps, y);
}

}  // namespace tutti::cuda
