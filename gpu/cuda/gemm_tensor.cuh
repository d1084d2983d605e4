#pragma once

#include "gpu/cuda/gemm_input.cuh"

// Matrix products on tensor cores, whatever type they are in. Each type's kernel is compiled where it is
// named.

namespace tutti::cuda {
namespace {

// A block of 4 warps makes a tile of 64 rows and 64 columns, a warp a quarter of it from 2 x 4 products of
// the tensor core's 16 x 8 x 8 words. The sum of a row and a column runs over k in steps of 8 words, in
// order, whatever the tile holds beside them.
constexpr int warps_per_side = 2;
constexpr int block_threads = warps_per_side * warps_per_side * warp_threads;
constexpr int tile = 64;
constexpr int warp_tile = tile / warps_per_side;
constexpr int step = tensor_step_words;
constexpr int mma_words = 8;
constexpr int mma_rows = 16;
constexpr int mma_columns = 8;
constexpr int row_blocks = warp_tile / mma_rows;
constexpr int column_blocks = warp_tile / mma_columns;
// Each thread loads one word of a step in so many rows, and so many columns.
constexpr int loaded = tile * step / block_threads;
constexpr int load_stride = block_threads / step;

struct Shared {
  // By word. With 4 words more than there are, the threads of a warp that read a fragment hit different
  // banks.
  SharedMatrix<uint32_t, tile, step + 4> x, w;
};

/// Words of the step of a row or column that this thread loads in each of `loaded` of them. Null beyond the
/// ends. They are loaded while the step before is computed.
struct Words {
  const uint32_t* from[loaded];
  uint32_t words[loaded];

  /// Of (count, width) words, `first` and every load_stride-th after it.
  __device__ Words(const uint32_t* all, int64_t first, int64_t count, int64_t width) {
#pragma unroll
    for (int i = 0; i < loaded; ++i) {
      const int64_t row = first + i * load_stride;
      from[i] = row < count ? all + row * width : nullptr;
    }
  }
  __device__ void fetch(int64_t word) {
#pragma unroll
    for (int i = 0; i < loaded; ++i) words[i] = from[i] != nullptr ? from[i][word] : 0U;
  }
};

/// The same of x, each pair of values rounded to a word as it is loaded.
template <class Operand>
struct RoundedRows {
  const float* from[loaded];
  uint32_t words[loaded];

  __device__ RoundedRows(const GemmCall& call, int64_t first) {
#pragma unroll
    for (int i = 0; i < loaded; ++i) {
      const int64_t row = first + i * load_stride;
      from[i] = row < call.rows ? row_of(call.x, row) : nullptr;
    }
  }
  __device__ void fetch(const GemmCall& call, int64_t word) {
    const int64_t k = 2 * word;
    const int64_t low = offset_of(call.x, k);
    const int64_t high = offset_of(call.x, k + 1);
#pragma unroll
    for (int i = 0; i < loaded; ++i) {
      const float a = from[i] != nullptr && k < call.in ? from[i][low] : 0.0F;
      const float b = from[i] != nullptr && k + 1 < call.in ? from[i][high] : 0.0F;
      words[i] = Operand::pack(a, b);
    }
  }
};

/// Rows that `quantize_rows` has made.
struct CodeRows : Words {
  __device__ CodeRows(const GemmCall& call, int64_t first)
      : Words(call.coded.words, first, call.rows, words_of(call.type, call.in)) {}
  __device__ void fetch(const GemmCall& /*call*/, int64_t word) { Words::fetch(word); }
};

// An Operand is what differs between types: how x is read (Rows), how words are multiplied (multiply), and
// what a finished sum (Sum) is worth (value).

/// A step's words on their way from memory to shared memory.
template <class Operand>
struct Loader {
  int word, first;
  typename Operand::Rows x;
  Words w;

  __device__ Loader(const GemmCall& call, int64_t first_row, int64_t first_column)
      : word(static_cast<int>(threadIdx.x) % step),
        first(static_cast<int>(threadIdx.x) / step),
        x(call, first_row + first),
        w(call.weight_words, first_column + first, call.out, words_of(call.type, call.in)) {}

  __device__ void fetch(const GemmCall& call, int64_t from) {
    x.fetch(call, from + word);
    w.fetch(from + word);
  }

  __device__ void store(Shared& shared) const {
#pragma unroll
    for (int i = 0; i < loaded; ++i) {
      shared.x(first + i * load_stride, word) = x.words[i];
      shared.w(first + i * load_stride, word) = w.words[i];
    }
  }
};

/// What a warp sums up. In a fragment a thread has row or column `group`, and words from `member` on.
template <class Operand>
struct WarpTile {
  using Sum = typename Operand::Sum;
  int row, column, group, member;
  Sum sums[row_blocks][column_blocks][4];

  __device__ WarpTile() : sums{} {
    const int warp = static_cast<int>(threadIdx.x) / warp_threads;
    const int lane = static_cast<int>(threadIdx.x) % warp_threads;
    row = warp / warps_per_side * warp_tile;
    column = warp % warps_per_side * warp_tile;
    group = lane / 4;
    member = lane % 4;
  }

  __device__ void multiply(Shared& shared) {
#pragma unroll
    for (int k = 0; k < step; k += mma_words) {
      uint32_t x[row_blocks][4];
      uint32_t w[column_blocks][2];
#pragma unroll
      for (int i = 0; i < row_blocks; ++i) {
        const int r = row + i * mma_rows + group;
        x[i][0] = shared.x(r, k + member);
        x[i][1] = shared.x(r + 8, k + member);
        x[i][2] = shared.x(r, k + member + 4);
        x[i][3] = shared.x(r + 8, k + member + 4);
      }
#pragma unroll
      for (int j = 0; j < column_blocks; ++j) {
        const int c = column + j * mma_columns + group;
        w[j][0] = shared.w(c, k + member);
        w[j][1] = shared.w(c, k + member + 4);
      }
#pragma unroll
      for (int i = 0; i < row_blocks; ++i) {
#pragma unroll
        for (int j = 0; j < column_blocks; ++j) Operand::multiply(sums[i][j], x[i], w[j]);
      }
    }
  }

  /// Calls `write(row, column, sum)` for each of the thread's elements of the block's tile.
  template <class Write>
  __device__ void for_each(Write write) const {
#pragma unroll
    for (int i = 0; i < row_blocks; ++i) {
#pragma unroll
      for (int j = 0; j < column_blocks; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          write(row + i * mma_rows + group + e / 2 * 8, column + j * mma_columns + 2 * member + e % 2,
                sums[i][j][e]);
        }
      }
    }
  }
};

template <class Operand>
__global__ void gemm_tiles(GemmCall call) {
  Shared& shared = shared_memory<Shared>();
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * tile;
  const int64_t first_column = static_cast<int64_t>(blockIdx.y) * tile;
  const int64_t words = words_of(call.type, call.in);
  WarpTile<Operand> warp;
  Loader<Operand> loader(call, first_row, first_column);
  loader.fetch(call, 0);
  for (int64_t word = 0; word < words; word += step) {
    loader.store(shared);
    __syncthreads();
    if (word + step < words) loader.fetch(call, word + step);
    warp.multiply(shared);
    __syncthreads();  // before the next store
  }
  warp.for_each([&](int row, int column, typename Operand::Sum sum) {
    const int64_t y_row = first_row + row;
    const int64_t y_column = first_column + column;
    if (has(call, y_row, y_column)) finish(call, y_row, y_column, Operand::value(call, y_row, y_column, sum));
  });
}

template <class Operand>
int launch_tiles(Queue* queue, const GemmCall& call) {
  return launch(queue, gemm_tiles<Operand>, dim3(blocks_for(call.rows, tile), blocks_for(call.out, tile)),
                dim3(block_threads), call);
}

}  // namespace
}  // namespace tutti::cuda
