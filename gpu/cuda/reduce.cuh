#pragma once

#include "gpu/cuda/intrinsics.cuh"

// Reductions whose order depends on nothing but the number of threads, so that a row is the same in any
// batch.

namespace tutti::cuda {

struct Add {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

struct Larger {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

struct Smaller {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};

/// A butterfly: every thread of the warp ends with the same result.
template <class T, class Combine>
__device__ T warp_reduce(T value, Combine combine) {
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffU, value, distance));
  }
  return value;
}

/// The same of four values, with the same bits: a quarter of the warp ends with one of them, the first
/// quarter with the first. While threads have several to combine, they share them out in the exchange itself.
template <class T, class Combine>
__device__ T warp_reduce_to_quarters(const T (&values)[4], Combine combine) {
  const auto exchange = [](T value, int distance) { return __shfl_xor_sync(0xffffffffU, value, distance); };
  const bool upper = threadIdx.x % 32 >= 16;
  const T even = combine(upper ? values[2] : values[0], exchange(upper ? values[0] : values[2], 16));
  const T odd = combine(upper ? values[3] : values[1], exchange(upper ? values[1] : values[3], 16));
  const bool is_odd = threadIdx.x % 16 >= 8;
  T value = combine(is_odd ? odd : even, exchange(is_odd ? even : odd, 8));
  for (int distance = 4; distance > 0; distance /= 2) value = combine(value, exchange(value, distance));
  return value;
}

/// warp_reduce over a block of one dimension. `partial` has an element for each warp, and is used for nothing
/// else.
template <class T, int warps, class Combine>
__device__ T block_reduce_once(T value, SharedArray<T, warps>& partial, Combine combine) {
  value = warp_reduce(value, combine);
  const int warp = static_cast<int>(threadIdx.x) / warp_threads;
  if (threadIdx.x % warp_threads == 0) partial(warp) = value;
  __syncthreads();
  T result = partial(0);
  for (int w = 1; w < warps; ++w) result = combine(result, T(partial(w)));
  return result;
}

/// The same, again and again.
template <class T, int warps, class Combine>
__device__ T block_reduce(T value, SharedArray<T, warps>& partial, Combine combine) {
  const T result = block_reduce_once(value, partial, combine);
  __syncthreads();  // before the next reduction writes
  return result;
}

}  // namespace tutti::cuda
