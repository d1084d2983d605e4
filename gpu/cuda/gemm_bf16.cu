#include "gpu/cuda/gemm_input.cuh"

namespace tutti::cuda {
namespace {

// A block of 4 warps makes a tile of 64 rows and 64 columns, a warp a quarter of it from 2 x 4 products of
// the tensor core's 16 x 8 x 16. The sum of a row and a column runs over k in steps of 16, in order, whatever
// the tile holds beside them.
constexpr int warps_per_side = 2;
constexpr int block_threads = warps_per_side * warps_per_side * warp_threads;
constexpr int tile = 64;
constexpr int warp_tile = tile / warps_per_side;
constexpr int depth = bf16_depth;
constexpr int pairs = depth / 2;
constexpr int mma_rows = 16;
constexpr int mma_columns = 8;
constexpr int row_blocks = warp_tile / mma_rows;
constexpr int column_blocks = warp_tile / mma_columns;
// Each thread loads one pair of a step's depth in so many rows, and so many columns.
constexpr int loaded = tile * pairs / block_threads;
constexpr int load_stride = block_threads / pairs;

struct Shared {
  // Two values a word, by k. With 4 words more than there are, the threads of a warp that read a fragment
  // hit different banks.
  SharedMatrix<uint32_t, tile, pairs + 4> x, w;
};

/// A step's values on their way from memory, so that they arrive while the step before is computed.
struct Loader {
  int pair, first;
  const float* x[loaded];
  const uint32_t* w[loaded];
  uint32_t x_words[loaded];
  uint32_t w_words[loaded];

  __device__ Loader(const GemmCall& call, int64_t first_row, int64_t first_column) {
    pair = static_cast<int>(threadIdx.x) % pairs;
    first = static_cast<int>(threadIdx.x) / pairs;
    const int64_t words = padded_depth(call.in) / 2;
#pragma unroll
    for (int i = 0; i < loaded; ++i) {
      const int64_t row = first_row + first + i * load_stride;
      const int64_t column = first_column + first + i * load_stride;
      x[i] = row < call.rows ? row_of(call.x, row) : nullptr;
      w[i] = column < call.out ? call.weight_pairs + column * words : nullptr;
    }
  }

  __device__ void fetch(const GemmCall& call, int64_t step) {
    const int64_t k = step + 2 * pair;
    const int64_t low = offset_of(call.x, k);
    const int64_t high = offset_of(call.x, k + 1);
#pragma unroll
    for (int i = 0; i < loaded; ++i) {
      const float a = x[i] != nullptr && k < call.in ? x[i][low] : 0.0F;
      const float b = x[i] != nullptr && k + 1 < call.in ? x[i][high] : 0.0F;
      x_words[i] = pack_bf16(a, b);
      w_words[i] = w[i] != nullptr ? w[i][k / 2] : 0U;  // zeros fill the last step
    }
  }

  __device__ void store(Shared& shared) const {
#pragma unroll
    for (int i = 0; i < loaded; ++i) {
      shared.x(first + i * load_stride, pair) = x_words[i];
      shared.w(first + i * load_stride, pair) = w_words[i];
    }
  }
};

/// What a warp sums up. In a fragment a thread has row or column `group`, and elements from `member` on.
struct WarpTile {
  int row, column, group, member;
  float sums[row_blocks][column_blocks][4];

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
    for (int k = 0; k < pairs; k += 8) {
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
        for (int j = 0; j < column_blocks; ++j) mma_bf16(sums[i][j], x[i], w[j]);
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

__global__ void gemm_bf16_tiles(GemmCall call) {
  Shared& shared = shared_memory<Shared>();
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * tile;
  const int64_t first_column = static_cast<int64_t>(blockIdx.y) * tile;
  WarpTile warp;
  Loader loader(call, first_row, first_column);
  loader.fetch(call, 0);
  for (int64_t k = 0; k < call.in; k += depth) {
    loader.store(shared);
    __syncthreads();
    if (k + depth < call.in) loader.fetch(call, k + depth);
    warp.multiply(shared);
    __syncthreads();  // before the next store
  }
  warp.for_each(
      [&](int row, int column, float sum) { finish(call, first_row + row, first_column + column, sum); });
}

}  // namespace

int gemm_bf16(Queue* queue, const GemmCall& call) {
  return launch(queue, gemm_bf16_tiles, dim3(blocks_for(call.rows, tile), blocks_for(call.out, tile)),
                dim3(block_threads), call);
}

}  // namespace tutti::cuda
