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

// One warp a row and head; the keys come one after another from the lane's first, so that a row does not
// depend on its company.
__global__ void attend_rows(AttentionCall call) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * warps + threadIdx.y;
  if (row >= call.rows) return;
  const int dim = call.head_dim;
  const int64_t width = static_cast<int64_t>(call.heads) * dim;
  const int64_t column = static_cast<int64_t>(blockIdx.y) * dim;
  const AttentionLane lane = call.lanes[call.row_lane[row]];
  const float scale = 1.0F / sqrtf(static_cast<float>(dim));

  Spread content;
  Spread position;
  Spread sums;
  const float* const query = call.qkv + row * 3 * width + column;
  for_each_dimension(content, dim, [&](float& x, int c) { x = query[c] + call.bias_u[column + c]; });
  for_each_dimension(position, dim, [&](float& x, int c) { x = query[c] + call.bias_v[column + c]; });
  for_each_dimension(sums, dim, [&](float& x, int) { x = 0.0F; });
  RunningSoftmax softmax;
  for (int key = 0; key < lane.keys; ++key) {
    const int logical = lane.cache_begin + key;
    const int32_t block = call.block_table[lane.table + logical / call.block_size];
    const int64_t frame = static_cast<int64_t>(block) * call.block_size + logical % call.block_size;
    const float* const k = call.k + frame * width + column;
    const float* const v = call.v + frame * width + column;
    const float* const p = call.positions + (lane.first_key_position + key) * width + column;
    float part = 0.0F;
    for_each_dimension(content, dim, [&](float& x, int c) { part = multiply_add(x, k[c], part); });
    for_each_dimension(position, dim, [&](float& x, int c) { part = multiply_add(x, p[c], part); });
    const auto [shrink, weight] = softmax.add(warp_reduce(part, Add()) * scale);
    for_each_dimension(sums, dim, [&](float& x, int c) { x = multiply_add(weight, v[c], x * shrink); });
  }
  float* const out = call.out + row * width + column;
  for_each_dimension(sums, dim, [&](float& x, int c) { out[c] = x / softmax.normalizer; });
}

}  // namespace

int paged_attention(Queue* queue, const AttentionCall& call) {
  const int error =
      launch(queue, append_rows, dim3(static_cast<unsigned>(call.rows)), dim3(append_threads), call);
  if (error != 0) return error;
  return launch(queue, attend_rows, dim3(blocks_for(call.rows, warps), static_cast<unsigned>(call.heads)),
                dim3(warp_threads, warps), call);
}

}  // namespace tutti::cuda
