#include "gpu/cuda/gemm_input.cuh"

namespace tutti::cuda {
namespace {

// A block of 4 warps makes a tile of 64 rows and 64 columns, a warp a quarter of it, a thread 8 rows and 4
// columns. The sum of a row and a column runs over k in order, whatever the tile holds beside them.
constexpr int warps_per_side = 2;
constexpr int block_threads = warps_per_side * warps_per_side * warp_threads;
constexpr int tile = 64;
constexpr int warp_tile = tile / warps_per_side;
constexpr int thread_rows = 8;
constexpr int thread_columns = 4;
constexpr int threads_across = warp_tile / thread_columns;
static_assert(warp_tile / thread_rows * threads_across == warp_threads);
constexpr int depth = 16;

// Of a step a thread loads four values of so many rows and columns.
constexpr int quads_per_row = depth / quad;
constexpr int loaded = tile * quads_per_row / block_threads;
constexpr int load_stride = tile / loaded;

struct Tiles {
  // By k. With 4 more than there are, the threads that store 16 rows of two quads hit different banks.
  SharedMatrix<float, depth, tile + quad> x, w;
};
struct Shared {
  Tiles turns[2];
};

/// A step's values on their way to shared memory. Rows and columns beyond the ends are the first again, and
/// what comes of them is not written.
template <bool quads>
struct Loader {
  int row, k;
  RowQuads<loaded, quads> x, w;

  __device__ Loader(const GemmCall& call, int64_t first_row, int64_t first_column) {
    constexpr int rows_at_once = 16;
    const int thread = static_cast<int>(threadIdx.x);
    row = thread % rows_at_once + thread / (rows_at_once * quads_per_row) * rows_at_once;
    k = thread / rows_at_once % quads_per_row * quad;
#pragma unroll
    for (int i = 0; i < loaded; ++i) {
      const int64_t x_row = first_row + row + i * load_stride;
      const int64_t column = first_column + row + i * load_stride;
      x.from[i] = row_of(call.x, x_row < call.rows ? x_row : 0);
      w.from[i] = call.weight + (column < call.out ? column : 0) * call.in;
    }
  }

  __device__ void fetch(const GemmCall& call, int64_t step) {
    x.fetch(step + k, call.in, [&](int64_t at) { return offset_of(call.x, at); });
    w.fetch(step + k, call.in, [](int64_t at) { return at; });
  }

  __device__ void store(Tiles& tiles) const {
#pragma unroll
    for (int i = 0; i < loaded; ++i) {
#pragma unroll
      for (int e = 0; e < quad; ++e) {
        tiles.x(k + e, row + i * load_stride) = x.values[i].values[e];
        tiles.w(k + e, row + i * load_stride) = w.values[i].values[e];
      }
    }
  }
};

/// What a thread sums up.
struct ThreadTile {
  int row, column;
  Outputs<thread_rows, 1, thread_columns> y;

  __device__ ThreadTile(int64_t first_row, int64_t first_column) : y{} {
    const int warp = static_cast<int>(threadIdx.x) / warp_threads;
    const int lane = static_cast<int>(threadIdx.x) % warp_threads;
    row = warp / warps_per_side * warp_tile + lane / threads_across * thread_rows;
    column = warp % warps_per_side * warp_tile + lane % threads_across * thread_columns;
    y.column[0] = first_column + column;
#pragma unroll
    for (int i = 0; i < thread_rows; ++i) y.row[i] = first_row + row + i;
  }

  __device__ void multiply(Tiles& tiles) {
#pragma unroll
    for (int d = 0; d < depth; ++d) {
      const Vector<float, quad> x[2] = {tiles.x.load<quad>(d, row), tiles.x.load<quad>(d, row + quad)};
      const Vector<float, quad> w = tiles.w.load<quad>(d, column);
#pragma unroll
      for (int i = 0; i < thread_rows; ++i) {
#pragma unroll
        for (int j = 0; j < thread_columns; ++j) {
          float& sum = y.values[i][0][j];
          sum = multiply_add(x[i / quad].values[i % quad], w.values[j], sum);
        }
      }
    }
  }
};

// While a step is multiplied the next one is on its way, and is stored where the one before was: a barrier a
// step is enough.
template <bool quads>
__global__ void __launch_bounds__(block_threads) gemm_tiles(GemmCall call) {
  Shared& shared = shared_memory<Shared>();
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * tile;
  const int64_t first_column = static_cast<int64_t>(blockIdx.y) * tile;
  ThreadTile thread(first_row, first_column);
  Loader<quads> loader(call, first_row, first_column);
  loader.fetch(call, 0);
  for (int64_t k = 0; k < call.in; k += depth) {
    Tiles& tiles = shared.turns[k / depth % 2];
    loader.store(tiles);
    __syncthreads();
    if (k + depth < call.in) loader.fetch(call, k + depth);
    thread.multiply(tiles);
  }
  thread.y.finish(call);
}

}  // namespace

int gemm(Queue* queue, const GemmCall& call) {
  return launch(queue, has_quads(call) ? gemm_tiles<true> : gemm_tiles<false>,
                dim3(blocks_for(call.rows, tile), blocks_for(call.out, tile)), dim3(block_threads), call);
}

}  // namespace tutti::cuda
