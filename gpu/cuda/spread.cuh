#pragma once

#include "gpu/cuda/intrinsics.cuh"

namespace tutti::cuda {

/// A head's vector, of at most max_attention_head_dim values, over the threads of a warp.
struct Spread {
  float values[max_attention_head_dim / warp_threads];
};

/// Calls `step(value, dimension)` for those values of a Spread that this thread holds.
template <class Step>
__device__ void for_each_dimension(Spread& spread, int head_dim, Step step) {
#pragma unroll
  for (int i = 0; i < max_attention_head_dim / warp_threads; ++i) {
    const int c = i * warp_threads + static_cast<int>(threadIdx.x);
    if (c < head_dim) step(spread.values[i], c);
  }
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
