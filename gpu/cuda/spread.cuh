#pragma once

#include "gpu/cuda/intrinsics.cuh"

namespace tutti::cuda {

/// A head's vector, of at most slots * warp_threads values, over the threads of a warp.
template <int slots>
struct Spread {
  float values[slots];
};

/// Calls `step(slot, dimension)` for those values of a Spread that this thread holds.
template <int slots, class Step>
__device__ void for_each_slot(int head_dim, Step step) {
#pragma unroll
  for (int i = 0; i < slots; ++i) {
    const int c = i * warp_threads + static_cast<int>(threadIdx.x);
    if (c < head_dim) step(i, c);
  }
}

/// Calls `step(value, dimension)` for them.
template <int slots, class Step>
__device__ void for_each_dimension(Spread<slots>& spread, int head_dim, Step step) {
  for_each_slot<slots>(head_dim, [&](int i, int c) { step(spread.values[i], c); });
}

/// Of a kernel for 2, 4 and 8 slots the one with as few as hold a head: empty ones would take registers and
/// instructions. With a single slot, of which threads may have none, threads that have it would go their own
/// way between the exchanges of a warp.
template <class Kernel>
Kernel for_head_dim(int head_dim, Kernel of_two, Kernel of_four, Kernel of_eight) {
  static_assert(max_attention_head_dim == 8 * warp_threads);
  if (head_dim <= 2 * warp_threads) return of_two;
  return head_dim <= 4 * warp_threads ? of_four : of_eight;
}

/// A softmax that takes its scores one after another: its maximum so far is carried along, and what was
/// summed shrinks when it grows.
struct RunningSoftmax {
  float maximum = 0.0F;
  float normalizer = 0.0F;
  bool empty = true;

  struct Step {
    float shrink, weight;
  };
  /// What the sums so far are to be multiplied by, and the weight of the next value.
  __device__ Step add(float score) {
    // Not a comparison with the larger one, so that a NaN stays.
    const float larger = empty || !(score <= maximum) ? score : maximum;
    const Step step{empty ? 0.0F : expf(maximum - larger), expf(score - larger)};
    empty = false;
    maximum = larger;
    normalizer = multiply_add(normalizer, step.shrink, step.weight);
    return step;
  }
};

}  // namespace tutti::cuda
