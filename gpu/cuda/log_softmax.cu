#include "gpu/cuda/reduce.cuh"

namespace tutti::cuda {
namespace {

constexpr int block_threads = 256;
constexpr int warps = block_threads / warp_threads;

/// A candidate as one number: the larger, the larger its value, then the smaller its id. A NaN comes last.
using Rank = unsigned long long;

__device__ Rank rank_of(float value, int id) {
  // Adding 0 makes a 0 of -0. Negative numbers grow with their bits, so all of these are inverted.
  const unsigned bits = __float_as_uint(value + 0.0F);
  const unsigned ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  const Rank high = value == value ? ordered : 0U;
  return high << 32 | (0xffffffffU - static_cast<unsigned>(id));
}
__device__ int id_of(Rank rank) { return static_cast<int>(0xffffffffU - static_cast<unsigned>(rank)); }

struct Shared {
  SharedArray<float, warps> values;
  SharedArray<Rank, warps> ranks;
};

// One block a row. The k largest are found one after another: k is small, and a row stays in the cache.
__global__ void log_softmax_rows(float* x, int cols, int k, int32_t* ids, float* values) {
  Shared& shared = shared_memory<Shared>();
  x += static_cast<int64_t>(blockIdx.x) * cols;
  ids += static_cast<int64_t>(blockIdx.x) * k;
  values += static_cast<int64_t>(blockIdx.x) * k;
  const int thread = static_cast<int>(threadIdx.x);

  float max = x[0];
  for (int c = thread; c < cols; c += block_threads) max = x[c] > max ? x[c] : max;
  max = block_reduce(max, shared.values, Larger());
  float sum = 0.0F;
  for (int c = thread; c < cols; c += block_threads) sum += expf(x[c] - max);
  const float log_sum = logf(block_reduce(sum, shared.values, Add()));
  for (int c = thread; c < cols; c += block_threads) x[c] = x[c] - max - log_sum;

  Rank last = ~Rank{0};
  for (int i = 0; i < k; ++i) {
    Rank best = 0;  // below all candidates
    // A thread reads only what it wrote.
    for (int c = thread; c < cols; c += block_threads) {
      const Rank rank = rank_of(x[c], c);
      if (rank < last && rank > best) best = rank;
    }
    last = block_reduce(best, shared.ranks, Larger());
    const int id = id_of(last);
    if (id % block_threads == thread) {
      ids[i] = id;
      values[i] = x[id];
    }
  }
}

}  // namespace

int log_softmax_top_k(Queue* queue, float* x, int64_t rows, int cols, int k, int32_t* ids, float* values) {
  return launch(queue, log_softmax_rows, dim3(static_cast<unsigned>(rows)), dim3(block_threads), x, cols, k,
                ids, values);
}

}  // namespace tutti::cuda
