#pragma once

#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/vector.hpp"

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
  alignas(16) T values[rows][columns];
  __device__ T& operator()(int row, int column) { return values[row][column]; }
  /// n neighbours in a row; `column` and `columns` are multiples of n.
  template <int n>
  __device__ Vector<T, n> load(int row, int column) const {
    return *reinterpret_cast<const Vector<T, n>*>(&values[row][column]);
  }
  template <int n>
  __device__ void store(int row, int column, const Vector<T, n>& from) {
    *reinterpret_cast<Vector<T, n>*>(&values[row][column]) = from;
  }
};

/// The block's shared memory; T is made of the two types above. A kernel asks for one T.
template <class T>
__device__ T& shared_memory() {
  __shared__ T memory;
  return memory;
}

/// a * b + c, rounded once.
__device__ inline float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }

/// Two values rounded to bfloat16, halves to even, `low` in the lower half.
__device__ inline uint32_t pack_bf16(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// To float16 likewise.
__device__ inline uint32_t pack_f16(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// The nearest integer, halves to even.
__device__ inline int32_t nearest(float value) { return __float2int_rn(value); }

// The warp adds the product of x (16, k) and w (8, k) to sums (16, 8), with k = 16 values of 16 bits or 32 of
// 8: 8 words either way. A thread holds of x the rows lane / 4, and 8 more, and the words lane % 4, and 4
// more; of w likewise; of sums two neighbours in each of its rows of x.

#define TUTTI_MMA(shape_and_types, out, x, w)                                                                \
  asm("mma.sync.aligned." shape_and_types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+" out(sums[0]), "+" out(sums[1]), "+" out(sums[2]), "+" out(sums[3])                               \
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(w[0]), "r"(w[1]))

__device__ inline void mma_bf16(float (&sums)[4], const uint32_t (&x)[4], const uint32_t (&w)[2]) {
  TUTTI_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "f", x, w);
}
__device__ inline void mma_f16(float (&sums)[4], const uint32_t (&x)[4], const uint32_t (&w)[2]) {
  TUTTI_MMA("m16n8k16.row.col.f32.f16.f16.f32", "f", x, w);
}
/// x from 0 to 255, w from -128 to 127.
__device__ inline void mma_int8(int32_t (&sums)[4], const uint32_t (&x)[4], const uint32_t (&w)[2]) {
  TUTTI_MMA("m16n8k32.row.col.s32.u8.s8.s32", "r", x, w);
}
/// For kernels that `has_f8` is asked about.
__device__ inline void mma_f8e4m3(float (&sums)[4], const uint32_t (&x)[4], const uint32_t (&w)[2]) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
  TUTTI_MMA("m16n8k32.row.col.f32.e4m3.e4m3.f32", "f", x, w);
#else
  __trap();
#endif
}

#undef TUTTI_MMA

/// Whether what the GPU would run of `kernel` multiplies in float8: whether it was compiled for such a GPU.
template <class Kernel>
int has_f8(int device, Kernel kernel, int* has) {
  constexpr int first_architecture = 89;
  *has = 0;
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return error;
  cudaFuncAttributes attributes{};
  if (const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel); error != cudaSuccess)
    return error;
  *has = attributes.binaryVersion >= first_architecture ? 1 : 0;
  return cudaSuccess;
}

template <class... Parameters, class... Arguments>
int launch(Queue* queue, void (*kernel)(Parameters...), dim3 grid, dim3 block, Arguments... arguments) {
  if (grid.x == 0 || grid.y == 0) return cudaSuccess;
  if (!queue->recording.takes(kernel, grid, block, static_cast<Parameters>(arguments)...)) return cudaSuccess;
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

/// n neighbours at an address that is aligned for all of them.
template <int n, class T>
__device__ Vector<T, n> load(const T* from) {
  return *reinterpret_cast<const Vector<T, n>*>(from);
}
template <int n, class T>
__device__ void store(T* to, const Vector<T, n>& from) {
  *reinterpret_cast<Vector<T, n>*>(to) = from;
}

/// Blocks of `size` that hold `count` things.
inline unsigned blocks_for(int64_t count, int64_t size) {
  return static_cast<unsigned>((count + size - 1) / size);
}

}  // namespace tutti::cuda
