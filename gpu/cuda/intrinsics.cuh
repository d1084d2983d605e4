#pragma once

#include "gpu/cuda/kernels.hpp"

// What kernels are written in, beside plain CUDA C++. nvcc takes the form below. Tests compile the same
// kernels for the host and name a header with a form that executes and checks them there: everything here,
// and the parts of CUDA C++ that the kernels use.

#ifdef __CUDACC__
#include <cuda_runtime.h>

#include "gpu/cuda/queue.hpp"

namespace tutti::cuda {

/// Shared memory is indexed with calls, which the host form checks and whose places it can tell apart.
template <class T, int count>
struct SharedArray {
  T values[count];
  __device__ T& operator()(int i) { return values[i]; }
};

template <class T, int rows, int columns>
struct SharedMatrix {
  T values[rows][columns];
  __device__ T& operator()(int row, int column) { return values[row][column]; }
};

/// The block's shared memory; T is made of the two types above. A kernel asks for one T.
template <class T>
__device__ T& shared_memory() {
  __shared__ T memory;
  return memory;
}

/// a * b + c, rounded once.
__device__ inline float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }

template <class... Parameters, class... Arguments>
int launch(Queue* queue, void (*kernel)(Parameters...), dim3 grid, dim3 block, Arguments... arguments) {
  if (grid.x == 0 || grid.y == 0) return cudaSuccess;
  if (const cudaError_t error = cudaSetDevice(queue->device); error != cudaSuccess) return error;
  kernel<<<grid, block, 0, queue->stream>>>(static_cast<Parameters>(arguments)...);
  return cudaGetLastError();
}

}  // namespace tutti::cuda
#else
#include TUTTI_CUDA_HOST_FORM
#endif

namespace tutti::cuda {

inline constexpr int warp_threads = 32;

/// Blocks of `size` that hold `count` things.
inline unsigned blocks_for(int64_t count, int64_t size) {
  return static_cast<unsigned>((count + size - 1) / size);
}

}  // namespace tutti::cuda
