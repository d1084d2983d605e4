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
// So that registers for a step on its way leave room for as many blocks.
constexpr int blocks_at_once = 4;
constexpr int tile = 64;
constexpr int warp_tile = tile / warps_per_side;
constexpr int step = tensor_step_words;
constexpr int mma_words = 8;
constexpr int mma_rows = 16;
constexpr int mma_columns = 8;
constexpr int row_blocks = warp_tile / mma_rows;
constexpr int column_blocks = warp_tile / mma_columns;

struct Tiles {
  // By word. With 4 words more than there are, the threads of a warp that read a fragment hit different
  // banks.
  SharedMatrix<uint32_t, tile, step + 4> x, w;
};
struct Shared {
  Tiles turns[2];
};

/// Which part of a step's row a thread loads, where a row has `parts`, in which rows or columns of the tile:
/// `first` and every `stride`-th after it. Eight threads side by side store the same part of as many rows,
/// which lie in different banks.
template <int parts>
struct Share {
  static constexpr int stride = block_threads / parts;
  static constexpr int count = tile / stride;
  int first, part;

  __device__ Share() {
    constexpr int side_by_side = 8;
    const int thread = static_cast<int>(threadIdx.x);
    first = thread % side_by_side + thread / (side_by_side * parts) * side_by_side;
    part = thread / side_by_side % parts;
  }
};

/// Four words of each of some rows of (count, width) words, on their way to shared memory. Beyond the last
/// row is the first again: what comes of it is not written.
struct Words {
  using Part = Share<step / quad>;
  Part share;
  const uint32_t* from[Part::count];
  Vector<uint32_t, quad> words[Part::count];

  __device__ Words(const uint32_t* all, int64_t begin, int64_t count, int64_t width) {
#pragma unroll
    for (int i = 0; i < Part::count; ++i) {
      const int64_t row = begin + share.first + i * Part::stride;
      from[i] = all + (row < count ? row : 0) * width + share.part * quad;
    }
  }
  __device__ void fetch(int64_t word) {
#pragma unroll
    for (int i = 0; i < Part::count; ++i) words[i] = load<quad>(from[i] + word);
  }
  template <class Matrix>
  __device__ void store(Matrix& matrix) const {
#pragma unroll
    for (int i = 0; i < Part::count; ++i) {
      matrix.template store<quad>(share.first + i * Part::stride, share.part * quad, words[i]);
    }
  }
};

/// The same of x in f32. Pairs of values are rounded to a word as they are stored.
template <class Operand, bool quads>
struct RoundedRows {
  static constexpr int values_per_word = 2;
  static constexpr int words = quad / values_per_word;
  using Part = Share<step / words>;
  Part share;
  RowQuads<Part::count, quads> rows;

  __device__ RoundedRows(const GemmCall& call, int64_t begin) {
#pragma unroll
    for (int i = 0; i < Part::count; ++i) {
      const int64_t row = begin + share.first + i * Part::stride;
      rows.from[i] = row_of(call.x, row < call.rows ? row : 0);
    }
  }
  __device__ void fetch(const GemmCall& call, int64_t word) {
    rows.fetch(word * values_per_word + share.part * quad, call.in,
               [&](int64_t k) { return offset_of(call.x, k); });
  }
  template <class Matrix>
  __device__ void store(Matrix& matrix) const {
#pragma unroll
    for (int i = 0; i < Part::count; ++i) {
      const float(&x)[quad] = rows.values[i].values;
      matrix.template store<words>(share.first + i * Part::stride, share.part * words,
                                   {{Operand::pack(x[0], x[1]), Operand::pack(x[2], x[3])}});
    }
  }
};

/// Rows that `quantize_rows` has made.
struct CodeRows : Words {
  __device__ CodeRows(const GemmCall& call, int64_t begin)
      : Words(call.coded.words, begin, call.rows, words_of(call.type, call.in)) {}
  __device__ void fetch(const GemmCall& /*call*/, int64_t word) { Words::fetch(word); }
};

// An Operand is what differs between types: how x is read (Rows), how words are multiplied (multiply), and
// what a finished sum (Sum) is worth (value), by what is known of its row (Row) and its column (Column).

/// A step's words on their way from memory to shared memory, while the step before is multiplied.
template <class Operand>
struct Loader {
  typename Operand::Rows x;
  Words w;

  __device__ Loader(const GemmCall& call, int64_t first_row, int64_t first_column)
      : x(call, first_row), w(call.weight_words, first_column, call.out, words_of(call.type, call.in)) {}

  __device__ void fetch(const GemmCall& call, int64_t word) {
    x.fetch(call, word);
    w.fetch(word);
  }
  __device__ void store(Tiles& tiles) const {
    x.store(tiles.x);
    w.store(tiles.w);
  }
};

/// What a warp sums up. In a fragment a thread has row or column `group`, and words from `member` on.
template <class Operand>
struct WarpTile {
  int row, column, group, member;
  typename Operand::Sum sums[row_blocks][column_blocks][4];

  __device__ WarpTile() : sums{} {
    const int warp = static_cast<int>(threadIdx.x) / warp_threads;
    const int lane = static_cast<int>(threadIdx.x) % warp_threads;
    row = warp / warps_per_side * warp_tile;
    column = warp % warps_per_side * warp_tile;
    group = lane / 4;
    member = lane % 4;
  }

  __device__ void multiply(Tiles& tiles) {
#pragma unroll
    for (int k = 0; k < step; k += mma_words) {
      uint32_t x[row_blocks][4];
      uint32_t w[column_blocks][2];
#pragma unroll
      for (int i = 0; i < row_blocks; ++i) {
        const int r = row + i * mma_rows + group;
        x[i][0] = tiles.x(r, k + member);
        x[i][1] = tiles.x(r + 8, k + member);
        x[i][2] = tiles.x(r, k + member + 4);
        x[i][3] = tiles.x(r + 8, k + member + 4);
      }
#pragma unroll
      for (int j = 0; j < column_blocks; ++j) {
        const int c = column + j * mma_columns + group;
        w[j][0] = tiles.w(c, k + member);
        w[j][1] = tiles.w(c, k + member + 4);
      }
#pragma unroll
      for (int i = 0; i < row_blocks; ++i) {
#pragma unroll
        for (int j = 0; j < column_blocks; ++j) Operand::multiply(sums[i][j], x[i], w[j]);
      }
    }
  }

  /// Writes the thread's part of the tile of y.
  __device__ void finish(const GemmCall& call, int64_t first_row, int64_t first_column) const {
    constexpr int rows = 2 * row_blocks;
    Outputs<rows, column_blocks, 2> y;
    typename Operand::Row of_row[rows];
    typename Operand::Column of_column[column_blocks][2];
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      y.row[r] = first_row + row + r / 2 * mma_rows + r % 2 * 8 + group;
      if (y.row[r] < call.rows) of_row[r] = Operand::row(call, y.row[r]);
    }
#pragma unroll
    for (int c = 0; c < column_blocks; ++c) {
      y.column[c] = first_column + column + c * mma_columns + 2 * member;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (y.column[c] + e < call.out) of_column[c][e] = Operand::column(call, y.column[c] + e);
      }
    }
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
      for (int c = 0; c < column_blocks; ++c) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          y.values[r][c][e] = Operand::value(of_row[r], of_column[c][e], sums[r / 2][c][r % 2 * 2 + e]);
        }
      }
    }
    y.finish(call);
  }
};

// While a step is multiplied the next one is on its way, and is stored where the one before was: a barrier a
// step is enough.
template <class Operand>
__global__ void __launch_bounds__(block_threads, blocks_at_once) gemm_tiles(GemmCall call) {
  Shared& shared = shared_memory<Shared>();
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * tile;
  const int64_t first_column = static_cast<int64_t>(blockIdx.y) * tile;
  const int64_t words = words_of(call.type, call.in);
  WarpTile<Operand> warp;
  Loader<Operand> loader(call, first_row, first_column);
  loader.fetch(call, 0);
  for (int64_t word = 0; word < words; word += step) {
    Tiles& tiles = shared.turns[word / step % 2];
    loader.store(tiles);
    __syncthreads();
    if (word + step < words) loader.fetch(call, word + step);
    warp.multiply(tiles);
  }
  warp.finish(call, first_row, first_column);
}

template <class Operand>
int launch_tiles(Queue* queue, const GemmCall& call) {
  return launch(queue, gemm_tiles<Operand>, dim3(blocks_for(call.rows, tile), blocks_for(call.out, tile)),
                dim3(block_threads), call);
}

}  // namespace
}  // namespace tutti::cuda
