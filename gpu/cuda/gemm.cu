#include "gpu/cuda/gemm_input.cuh"

namespace tutti::cuda {
namespace {

// A block of 16 x 16 threads makes a tile of 64 rows and 64 columns, a thread every 16th of each. The sum of
// a row and a column runs over k in order, whatever the tile holds beside them.
constexpr int side = 16;
constexpr int per_thread = 4;
constexpr int tile = side * per_thread;
constexpr int depth = 16;

struct Shared {
  // By k; a column more than there are keeps the stores of a half-warp in different banks.
  SharedMatrix<float, depth, tile + 1> x, w;
};

/// What one thread loads: element `at` of a step's depth in per_thread rows and columns. Null beyond the
/// ends.
struct Loader {
  int at, first;
  const float* x[per_thread];
  const float* w[per_thread];

  __device__ Loader(const GemmCall& call, int64_t first_row, int64_t first_column) {
    const int thread = static_cast<int>(threadIdx.y * side + threadIdx.x);
    at = thread % depth;
    first = thread / depth;
    for (int i = 0; i < per_thread; ++i) {
      const int64_t row = first_row + first + i * side;
      const int64_t column = first_column + first + i * side;
      x[i] = row < call.rows ? row_of(call.x, row) : nullptr;
      w[i] = column < call.out ? call.weight + column * call.in : nullptr;
    }
  }

  __device__ void load(const GemmCall& call, int64_t step, Shared& shared) const {
    const int64_t k = step + at;
    const int64_t x_offset = offset_of(call.x, k);
#pragma unroll
    for (int i = 0; i < per_thread; ++i) {
      shared.x(at, first + i * side) = k < call.in && x[i] != nullptr ? x[i][x_offset] : 0.0F;
      shared.w(at, first + i * side) = k < call.in && w[i] != nullptr ? w[i][k] : 0.0F;
    }
  }
};
static_assert(side * side / depth * per_thread == tile, "the threads load a step of both tiles");

__global__ void gemm_tiles(GemmCall call) {
  Shared& shared = shared_memory<Shared>();
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * tile;
  const int64_t first_column = static_cast<int64_t>(blockIdx.y) * tile;
  const int row = static_cast<int>(threadIdx.y);
  const int column = static_cast<int>(threadIdx.x);
  float sums[per_thread][per_thread] = {};
  const Loader loader(call, first_row, first_column);
  for (int64_t k = 0; k < call.in; k += depth) {
    loader.load(call, k, shared);
    __syncthreads();
    for (int d = 0; d < depth; ++d) {
      float x[per_thread];
      float w[per_thread];
#pragma unroll
      for (int i = 0; i < per_thread; ++i) {
        x[i] = shared.x(d, row + i * side);
        w[i] = shared.w(d, column + i * side);
      }
#pragma unroll
      for (int i = 0; i < per_thread; ++i) {
#pragma unroll
        for (int j = 0; j < per_thread; ++j) sums[i][j] = multiply_add(x[i], w[j], sums[i][j]);
      }
    }
    __syncthreads();  // before the next load
  }
#pragma unroll
  for (int i = 0; i < per_thread; ++i) {
#pragma unroll
    for (int j = 0; j < per_thread; ++j) {
      const int64_t y_row = first_row + row + i * side;
      const int64_t y_column = first_column + column + j * side;
      if (has(call, y_row, y_column)) finish(call, y_row, y_column, sums[i][j]);
    }
  }
}

}  // namespace

int gemm(Queue* queue, const GemmCall& call) {
  return launch(queue, gemm_tiles, dim3(blocks_for(call.rows, tile), blocks_for(call.out, tile)),
                dim3(side, side), call);
}

}  // namespace tutti::cuda
