#include "gpu/cuda/reduce.cuh"

namespace tutti::cuda {
namespace {

constexpr int block_threads = 128;
constexpr int warps = block_threads / warp_threads;

/// The lane that `row` belongs to. An empty lane owns none.
__device__ int lane_of(const int32_t* row_begin, int lanes, int64_t row) {
  int low = 0;
  int high = lanes;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (row_begin[middle] <= row ? low : high) = middle;
  }
  return low;
}

__global__ void cmvn_rows(const float* const* features, const int32_t* row_begin, int lanes, int64_t mel,
                          const float* mean, const float* istd, float* out) {
  const int64_t row = blockIdx.x;
  const int lane = lane_of(row_begin, lanes, row);
  const float* const x = features[lane] + (row - row_begin[lane]) * mel;
  for (int64_t b = threadIdx.x; b < mel; b += block_threads) {
    out[row * mel + b] = (x[b] - mean[b]) * istd[b];
  }
}

// One warp an entry.
__global__ void average_rows(const float* x, const int32_t* rows, int64_t count, int64_t width,
                             int64_t values, float* means) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * warps + threadIdx.y;
  if (i >= count) return;
  const float* const from = x + rows[i] * width;
  float sum = 0.0F;
  for (int64_t c = threadIdx.x; c < values; c += warp_threads) sum += from[c];
  sum = warp_reduce(sum, Add());
  if (threadIdx.x == 0) means[i] = sum / static_cast<float>(values);
}

__global__ void embed_rows(const float* table, const int32_t* ids, const float* positions, const int32_t* at,
                           int64_t width, float* out) {
  const int64_t row = blockIdx.x;
  const float* const token = table + ids[row] * width;
  const float* const position = positions + at[row] * width;
  for (int64_t c = threadIdx.x; c < width; c += block_threads) out[row * width + c] = token[c] + position[c];
}

__global__ void pick_values(const float* x, const int32_t* columns, int64_t rows, int64_t width,
                            float* values) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (row < rows) values[row] = x[row * width + columns[row]];
}

}  // namespace

int cmvn(Queue* queue, const float* const* features, const int32_t* row_begin, int lanes, int64_t rows,
         int64_t mel, const float* mean, const float* istd, float* out) {
  return launch(queue, cmvn_rows, dim3(static_cast<unsigned>(rows)), dim3(block_threads), features, row_begin,
                lanes, mel, mean, istd, out);
}

int mean_of_rows(Queue* queue, const float* x, const int32_t* rows, int64_t count, int64_t width,
                 int64_t values, float* means) {
  return launch(queue, average_rows, dim3(blocks_for(count, warps)), dim3(warp_threads, warps), x, rows,
                count, width, values, means);
}

int embed_tokens(Queue* queue, const float* table, const int32_t* ids, const float* positions,
                 const int32_t* at, int64_t rows, int64_t width, float* out) {
  return launch(queue, embed_rows, dim3(static_cast<unsigned>(rows)), dim3(block_threads), table, ids,
                positions, at, width, out);
}

int pick(Queue* queue, const float* x, const int32_t* columns, int64_t rows, int64_t width, float* values) {
  return launch(queue, pick_values, dim3(blocks_for(rows, block_threads)), dim3(block_threads), x, columns,
                rows, width, values);
}

}  // namespace tutti::cuda
