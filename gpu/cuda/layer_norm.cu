#include "gpu/cuda/layer_norm.hpp"

namespace tutti::cuda {
namespace {

constexpr int warp_threads = 32;
constexpr int rows_per_block = 4;

// A butterfly: every thread ends with the same sum, added in the same order in every row.
__device__ float warp_sum(float value) {
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, distance);
  }
  return value;
}

// One warp a row, so that a row's result depends on nothing but the row.
__global__ void layer_norm_rows(const float* x, int64_t rows, int64_t cols, const float* gamma,
                                const float* beta, float eps, float* y) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * rows_per_block + threadIdx.y;
  if (row >= rows) return;
  x += row * cols;
  y += row * cols;
  float sum = 0.0F;
  for (int64_t c = threadIdx.x; c < cols; c += warp_threads) sum += x[c];
  const float mean = warp_sum(sum) / static_cast<float>(cols);
  float squares = 0.0F;
  for (int64_t c = threadIdx.x; c < cols; c += warp_threads) {
    const float centred = x[c] - mean;
    squares = fmaf(centred, centred, squares);
  }
  const float istd = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(cols) + eps);
  for (int64_t c = threadIdx.x; c < cols; c += warp_threads) {
    y[c] = fmaf((x[c] - mean) * istd, gamma[c], beta[c]);
  }
}

}  // namespace

cudaError_t layer_norm(const float* x, int64_t rows, int64_t cols, const float* gamma, const float* beta,
                       float eps, float* y) {
  if (rows == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>((rows + rows_per_block - 1) / rows_per_block);
  layer_norm_rows<<<blocks, dim3(warp_threads, rows_per_block)>>>(x, rows, cols, gamma, beta, eps, y);
  return cudaGetLastError();
}

}  // namespace tutti::cuda
