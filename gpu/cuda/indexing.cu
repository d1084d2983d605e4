#include "gpu/cuda/intrinsics.cuh"

namespace tutti::cuda {
namespace {

constexpr int block_threads = 256;

// A thread moves one element of an entry (`column`); blockIdx.y is the entry's place among the indices.

template <class T>
__global__ void select_elements(IndexedAxis axis, const T* from, const int32_t* indices, int count, T* to) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (column >= axis.outer * axis.inner) return;
  const int64_t outer = column / axis.inner;
  const int64_t inner = column % axis.inner;
  for (int i = static_cast<int>(blockIdx.y); i < count; i += static_cast<int>(gridDim.y)) {
    to[(outer * count + i) * axis.inner + inner] =
        from[(outer * axis.entries + indices[i]) * axis.inner + inner];
  }
}

// All indices in order: where one comes twice, threads that share the work would mix two entries.
template <class T>
__global__ void copy_elements(IndexedAxis axis, const T* from, const int32_t* indices, int count, T* to) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (column >= axis.outer * axis.inner) return;
  const int64_t outer = column / axis.inner;
  const int64_t inner = column % axis.inner;
  for (int i = 0; i < count; ++i) {
    to[(outer * axis.entries + indices[i]) * axis.inner + inner] =
        from[(outer * count + i) * axis.inner + inner];
  }
}

template <class T>
__global__ void fill_elements(IndexedAxis axis, const int32_t* indices, int count, uint32_t bits, T* to) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (column >= axis.outer * axis.inner) return;
  const int64_t outer = column / axis.inner;
  const int64_t inner = column % axis.inner;
  for (int i = static_cast<int>(blockIdx.y); i < count; i += static_cast<int>(gridDim.y)) {
    to[(outer * axis.entries + indices[i]) * axis.inner + inner] = static_cast<T>(bits);
  }
}

/// Calls `run` with a null pointer to the type that has the axis' element size.
template <class Run>
int with_element(const IndexedAxis& axis, Run run) {
  if (axis.element_size == 4) return run(static_cast<uint32_t*>(nullptr));
  if (axis.element_size == 2) return run(static_cast<uint16_t*>(nullptr));
  return run(static_cast<uint8_t*>(nullptr));
}

/// The most that a grid may have in its second dimension is 65535.
dim3 grid_for(const IndexedAxis& axis, int entries) {
  return dim3(blocks_for(axis.outer * axis.inner, block_threads),
              static_cast<unsigned>(entries < 1024 ? entries : 1024));
}

}  // namespace

int index_select(Queue* queue, const IndexedAxis& axis, const std::byte* from, const int32_t* indices,
                 int count, std::byte* to) {
  return with_element(axis, [&]<class T>(T*) {
    return launch(queue, select_elements<T>, grid_for(axis, count), dim3(block_threads), axis,
                  reinterpret_cast<const T*>(from), indices, count, reinterpret_cast<T*>(to));
  });
}

int index_copy(Queue* queue, const IndexedAxis& axis, const std::byte* from, const int32_t* indices,
               int count, std::byte* to) {
  return with_element(axis, [&]<class T>(T*) {
    return launch(queue, copy_elements<T>, grid_for(axis, count == 0 ? 0 : 1), dim3(block_threads), axis,
                  reinterpret_cast<const T*>(from), indices, count, reinterpret_cast<T*>(to));
  });
}

int index_fill(Queue* queue, const IndexedAxis& axis, const int32_t* indices, int count, uint32_t bits,
               std::byte* to) {
  return with_element(axis, [&]<class T>(T*) {
    return launch(queue, fill_elements<T>, grid_for(axis, count), dim3(block_threads), axis, indices, count,
                  bits, reinterpret_cast<T*>(to));
  });
}

}  // namespace tutti::cuda
