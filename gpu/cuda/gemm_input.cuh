#pragma once

#include "gpu/cuda/activation.cuh"

// What matrix products have in common, whatever multiplies.

namespace tutti::cuda {

/// Where row `row` of x begins.
__device__ inline const float* row_of(const GemmInput& x, int64_t row) {
  const int64_t group = row / x.group_rows;
  const int64_t begin = x.group_begin == nullptr ? group : x.group_begin[group];
  return x.base + begin * x.group_stride + row % x.group_rows * x.row_stride;
}

/// Where element k of a row lies, from its beginning.
__device__ inline int64_t offset_of(const GemmInput& x, int64_t k) {
  // In 32 bits, where a division is a third of what it is in 64.
  const uint32_t run = static_cast<uint32_t>(k) / static_cast<uint32_t>(x.run_length);
  return run * x.run_stride + (k - run * x.run_length);
}

__device__ inline float activate(GemmActivation activation, float x) {
  // Not fmaxf, which would lose a NaN.
  if (activation == GemmActivation::relu) return x < 0.0F ? 0.0F : x;
  return activation == GemmActivation::swish ? swish(x) : x;
}

/// Whether y has such an element: tiles reach beyond its end.
__device__ inline bool has(const GemmCall& call, int64_t row, int64_t column) {
  return row < call.rows && column < call.out;
}

/// Writes an element of y.
__device__ inline void finish(const GemmCall& call, int64_t row, int64_t column, float sum) {
  const float bias = call.bias == nullptr ? 0.0F : call.bias[column];
  const float value = call.scale * activate(call.activation, sum + bias);
  const int64_t at = row * call.out + column;
  call.y[at] = call.residual == nullptr ? value : call.residual[at] + value;
}

}  // namespace tutti::cuda
