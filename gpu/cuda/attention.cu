#include "gpu/cuda/reduce.cuh"
#include "gpu/cuda/spread.cuh"

namespace tutti::cuda {
namespace {

constexpr int append_threads = 128;
constexpr int warps = 4;

__global__ void append_rows(AttentionCall call) {
  const int64_t row = blockIdx.x;
  const int64_t width = static_cast<int64_t>(call.heads) * call.head_dim;
  const float* const fresh = call.qkv + row * 3 * width;
  const int64_t frame = call.row_frame[row] * width;
  for (int64_t c = threadIdx.x; c < width; c += append_threads) {
    call.k[frame + c] = fresh[width + c];
    call.v[frame + c] = fresh[2 * width + c];
  }
}

/// A lane's keys one after another: where they lie in the pool, and their positions.
struct Keys {
  const int32_t* block;
  int32_t block_size, offset;
  int64_t width, column, frame, position;

  __device__ Keys(const AttentionCall& call, const AttentionLane& lane, int64_t frame_width,
                  int64_t first_column)
      : block(call.block_table + lane.table + lane.cache_begin / call.block_size),
        block_size(call.block_size),
        offset(lane.cache_begin % call.block_size),
        width(frame_width),
        column(first_column),
        position(lane.first_key_position * frame_width + first_column) {
    find_frame();
  }
  __device__ void step() {
    position += width;
    frame += width;
    if (++offset < block_size) return;
    offset = 0;
    ++block;
    find_frame();
  }

 private:
  __device__ void find_frame() {
    frame = (static_cast<int64_t>(*block) * block_size + offset) * width + column;
  }
};

/// What a row has of a head.
template <int slots>
struct Row {
  Spread<slots> content, position, sums;

  __device__ void load(const AttentionCall& call, int64_t row, int64_t width, int64_t column) {
    const float* const query = call.qkv + row * 3 * width + column;
    for_each_slot<slots>(call.head_dim, [&](int i, int c) {
      content.values[i] = query[c] + call.bias_u[column + c];
      position.values[i] = query[c] + call.bias_v[column + c];
      sums.values[i] = 0.0F;
    });
  }
  /// This thread's part of the product with a key.
  __device__ float score(const Spread<slots>& k, const Spread<slots>& p, int dim) const {
    float part = 0.0F;
    for_each_slot<slots>(dim, [&](int i, int) { part = multiply_add(content.values[i], k.values[i], part); });
    for_each_slot<slots>(dim,
                         [&](int i, int) { part = multiply_add(position.values[i], p.values[i], part); });
    return part;
  }
};

template <int slots>
__device__ void load(Spread<slots>& spread, const float* from, int dim) {
  for_each_dimension(spread, dim, [&](float& x, int c) { x = from[c]; });
}

// One warp a head of up to four rows of a lane, which share each key that is loaded. The keys come one after
// another from the lane's first, so that a row does not depend on its company. A quarter of the warp carries
// the softmax of one row.
template <int slots>
__global__ void attend_tiles(AttentionCall call) {
  constexpr unsigned whole_warp = 0xffffffffU;
  constexpr int rows = attention_tile_rows;
  constexpr int quarter = warp_threads / rows;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * warps + threadIdx.y;
  if (index >= call.tile_count) return;
  const AttentionTile tile = call.tiles[index];
  const AttentionLane lane = call.lanes[tile.lane];
  const int dim = call.head_dim;
  const int64_t width = static_cast<int64_t>(call.heads) * dim;
  const int64_t column = static_cast<int64_t>(blockIdx.y) * dim;
  const float scale = 1.0F / sqrtf(static_cast<float>(dim));

  Row<slots> row[rows];
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    // Beyond the tile's last row it is that one again, and is not written.
    row[r].load(call, tile.row + (r < tile.rows ? r : tile.rows - 1), width, column);
  }
  RunningSoftmax softmax;
  Keys keys(call, lane, width, column);
  Spread<slots> k, p, v;
  load(k, call.k + keys.frame, dim);
  load(p, call.positions + keys.position, dim);
  load(v, call.v + keys.frame, dim);
  for (int key = 0; key < lane.keys; ++key) {
    float parts[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) parts[r] = row[r].score(k, p, dim);
    // The next key is on its way while this one is weighed; the last is loaded once more.
    if (key + 1 < lane.keys) keys.step();
    load(k, call.k + keys.frame, dim);
    load(p, call.positions + keys.position, dim);
    const auto [shrink, weight] = softmax.add(warp_reduce_to_quarters(parts, Add()) * scale);
    // Rarely does a maximum grow, and to multiply by 1 changes nothing.
    if (__any_sync(whole_warp, shrink != 1.0F)) {
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        const float factor = __shfl_sync(whole_warp, shrink, r * quarter);
        for_each_dimension(row[r].sums, dim, [&](float& x, int) { x = x * factor; });
      }
    }
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const float factor = __shfl_sync(whole_warp, weight, r * quarter);
      for_each_slot<slots>(dim, [&](int i, int) {
        float& x = row[r].sums.values[i];
        x = multiply_add(factor, v.values[i], x);
      });
    }
    load(v, call.v + keys.frame, dim);
  }
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const float normalizer = __shfl_sync(whole_warp, softmax.normalizer, r * quarter);
    if (r >= tile.rows) continue;
    float* const out = call.out + (tile.row + r) * width + column;
    for_each_dimension(row[r].sums, dim, [&](float& x, int c) { out[c] = x / normalizer; });
  }
}

}  // namespace

int paged_attention(Queue* queue, const AttentionCall& call) {
  const int error =
      launch(queue, append_rows, dim3(static_cast<unsigned>(call.rows)), dim3(append_threads), call);
  if (error != 0) return error;
  return launch(queue, for_head_dim(call.head_dim, attend_tiles<2>, attend_tiles<4>, attend_tiles<8>),
                dim3(blocks_for(call.tile_count, warps), static_cast<unsigned>(call.heads)),
                dim3(warp_threads, warps), call);
}

}  // namespace tutti::cuda
