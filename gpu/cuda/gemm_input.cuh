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

/// Values that are loaded at once.
constexpr int quad = 4;

inline bool is_aligned(const void* address, size_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}

/// Whether each four values of a row, from its beginning on, are neighbours and aligned.
inline bool has_quads(const GemmCall& call) {
  const GemmInput& x = call.x;
  const int64_t distances = call.in | x.run_length | x.run_stride | x.row_stride | x.group_stride;
  return distances % quad == 0 && is_aligned(x.base, quad * sizeof(float)) &&
         is_aligned(call.weight, quad * sizeof(float));
}

/// Four values of each of `count` rows, in registers on their way from memory to shared memory: what they are
/// made into is made when they are stored, so that nothing waits for them before. `quads` is has_quads().
template <int count, bool quads>
struct RowQuads {
  const float* from[count];
  Vector<float, quad> values[count];

  /// Values k to k + 3 of rows of `in`, and 0 beyond; `offset_of(k)` is where value k lies.
  template <class OffsetOf>
  __device__ void fetch(int64_t k, int64_t in, OffsetOf offset_of) {
#pragma unroll
    for (int e = 0; e < quad; e += quads ? quad : 1) {
      const bool there = k + e < in;
      const int64_t offset = offset_of(k + e);
#pragma unroll
      for (int i = 0; i < count; ++i) {
        if constexpr (quads) {
          values[i] = there ? load<quad>(from[i] + offset) : Vector<float, quad>{};
        } else {
          values[i].values[e] = there ? from[i][offset] : 0.0F;
        }
      }
    }
  }
};

/// Calls `apply` with the function that `activation` names: chosen once for all of a thread's outputs.
template <class Apply>
__device__ void with_activation(GemmActivation activation, Apply apply) {
  // Not fmaxf, which would lose a NaN.
  if (activation == GemmActivation::relu) return apply([](float x) { return x < 0.0F ? 0.0F : x; });
  if (activation == GemmActivation::swish) return apply([](float x) { return swish(x); });
  apply([](float x) { return x; });
}

/// A thread's part of a tile of y: `rows` rows, and in each `runs` times n neighbours, the first in a column
/// that is a multiple of n. Tiles reach beyond the end of y.
template <int rows, int runs, int n>
struct Outputs {
  int64_t row[rows];
  int64_t column[runs];
  float values[rows][runs][n];

  /// Writes what the sums in `values` come to.
  __device__ void finish(const GemmCall& call) {
    activate(call);
    // Then all of its rows are aligned as the first is.
    const bool whole =
        call.out % n == 0 && (address(call.y) | address(call.residual)) % (n * sizeof(float)) == 0;
    if (whole) {
      write<n>(call);
    } else {
      write<1>(call);
    }
  }

 private:
  static __device__ uint64_t address(const float* at) { return reinterpret_cast<uint64_t>(at); }

  __device__ void activate(const GemmCall& call) {
    float bias[runs][n];
#pragma unroll
    for (int c = 0; c < runs; ++c) {
#pragma unroll
      for (int e = 0; e < n; ++e) {
        bias[c][e] = call.bias != nullptr && column[c] + e < call.out ? call.bias[column[c] + e] : 0.0F;
      }
    }
    with_activation(call.activation, [&](auto activation) {
      for_each<1>([&](int r, int c, int e) {
        float& value = values[r][c][e];
        value = call.scale * activation(value + bias[c][e]);
      });
    });
  }

  /// `width` neighbours at a time.
  template <int width>
  __device__ void write(const GemmCall& call) {
    if (call.residual != nullptr) {
      for_each_there<width>(call, [&](float* to, int64_t at) {
        const Vector<float, width> residual = load<width>(call.residual + at);
#pragma unroll
        for (int i = 0; i < width; ++i) to[i] = residual.values[i] + to[i];
      });
    }
    for_each_there<width>(call, [&](const float* from, int64_t at) {
      Vector<float, width> result;
#pragma unroll
      for (int i = 0; i < width; ++i) result.values[i] = from[i];
      store(call.y + at, result);
    });
  }

  /// Calls `visit(values, place in y)` for those that y has.
  template <int width, class Visit>
  __device__ void for_each_there(const GemmCall& call, Visit visit) {
    for_each<width>([&](int r, int c, int e) {
      if (row[r] < call.rows && column[c] + e < call.out) {
        visit(&values[r][c][e], row[r] * call.out + column[c] + e);
      }
    });
  }

  template <int width, class Visit>
  static __device__ void for_each(Visit visit) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
      for (int c = 0; c < runs; ++c) {
#pragma unroll
        for (int e = 0; e < n; e += width) visit(r, c, e);
      }
    }
  }
};

}  // namespace tutti::cuda
