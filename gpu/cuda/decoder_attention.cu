#include "gpu/bfloat16.hpp"
#include "gpu/cuda/reduce.cuh"
#include "gpu/cuda/spread.cuh"
#include "gpu/float8.hpp"

namespace tutti::cuda {
namespace {

constexpr int warps = 4;

struct LargerOrNan {
  __device__ float operator()(float a, float b) const { return b > a || b != b ? b : a; }
};

/// Keys or values of one head, spread over a warp.
struct HeadStore {
  KvFormat format;
  std::byte* elements;  ///< the head's columns
  float* scales;        ///< the head's column
  int64_t width;        ///< elements between two tokens
  int64_t heads;        ///< scales between two tokens

  __device__ HeadStore(const DecoderPages& pages, std::byte* all, float* all_scales, int head)
      : format(pages.format),
        elements(all),
        scales(all_scales),
        width(static_cast<int64_t>(pages.heads) * pages.head_dim),
        heads(pages.heads) {
    const int64_t column = static_cast<int64_t>(head) * pages.head_dim;
    elements += column * (format == KvFormat::f32 ? 4 : format == KvFormat::bf16 ? 2 : 1);
    if (format == KvFormat::f8e4m3) scales += head;
  }

  /// What the elements of a token are multiplied by.
  __device__ float scale(int64_t token) const {
    return format == KvFormat::f8e4m3 ? scales[token * heads] : 1.0F;
  }
  __device__ float load(int64_t token, float token_scale, int c) const {
    const int64_t at = token * width + c;
    if (format == KvFormat::f32) return reinterpret_cast<const float*>(elements)[at];
    if (format == KvFormat::bf16) return from_bfloat16(reinterpret_cast<const uint16_t*>(elements)[at]);
    return from_float8_e4m3(reinterpret_cast<const uint8_t*>(elements)[at]) * token_scale;
  }
  /// The warp stores a vector.
  __device__ void store(int64_t token, const float* x, int dim) const {
    float token_scale = 1.0F;
    if (format == KvFormat::f8e4m3) {
      float largest = 0.0F;
      for (int c = static_cast<int>(threadIdx.x); c < dim; c += warp_threads) {
        largest = LargerOrNan()(largest, fabsf(x[c]));
      }
      token_scale = float8_e4m3_scale(warp_reduce(largest, LargerOrNan()));
      if (threadIdx.x == 0) scales[token * heads] = token_scale;
    }
    for (int c = static_cast<int>(threadIdx.x); c < dim; c += warp_threads) {
      const int64_t at = token * width + c;
      if (format == KvFormat::f32) reinterpret_cast<float*>(elements)[at] = x[c];
      if (format == KvFormat::bf16) reinterpret_cast<uint16_t*>(elements)[at] = to_bfloat16(x[c]);
      if (format == KvFormat::f8e4m3) {
        reinterpret_cast<uint8_t*>(elements)[at] = to_float8_e4m3(x[c] / token_scale);
      }
    }
  }
};

// One warp a row and head.
__global__ void append_rows(DecoderPages pages, const float* keys_values, int64_t stride,
                            const int32_t* row_token, int64_t rows) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * warps + threadIdx.y;
  if (row >= rows) return;
  const int head = static_cast<int>(blockIdx.y);
  const float* const k = keys_values + row * stride + static_cast<int64_t>(head) * pages.head_dim;
  const float* const v = k + static_cast<int64_t>(pages.heads) * pages.head_dim;
  HeadStore(pages, pages.k, pages.k_scales, head).store(row_token[row], k, pages.head_dim);
  HeadStore(pages, pages.v, pages.v_scales, head).store(row_token[row], v, pages.head_dim);
}

// One warp a row and head of queries; the keys come one after another from the lane's first.
template <int slots>
__global__ void attend_rows(DecoderAttentionCall call) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * warps + threadIdx.y;
  if (row >= call.rows) return;
  const DecoderPages& pages = call.pages;
  const int dim = pages.head_dim;
  const int head = static_cast<int>(blockIdx.y) / call.sharing;
  const int64_t width = static_cast<int64_t>(pages.heads) * dim;
  const int64_t column = static_cast<int64_t>(blockIdx.y) * dim;
  const DecoderLane lane = call.lanes[call.row_lane[row]];
  const int64_t keys = lane.first_row_keys + (call.causal != 0 ? row - lane.first_row : 0);
  const HeadStore k(pages, pages.k, pages.k_scales, head);
  const HeadStore v(pages, pages.v, pages.v_scales, head);
  const float scale = 1.0F / sqrtf(static_cast<float>(dim));

  Spread<slots> query;
  Spread<slots> sums;
  for_each_dimension(query, dim,
                     [&](float& x, int c) { x = call.queries[row * call.stride + column + c] * scale; });
  for_each_dimension(sums, dim, [&](float& x, int) { x = 0.0F; });
  RunningSoftmax softmax;
  for (int64_t key = 0; key < keys; ++key) {
    float part = 0.0F;
    if (lane.given != 0) {
      const float* const fresh =
          call.given + (lane.first_row + key) * call.stride + static_cast<int64_t>(head) * dim;
      for_each_dimension(query, dim, [&](float& x, int c) { part = multiply_add(x, fresh[c], part); });
      const auto [shrink, weight] = softmax.add(warp_reduce(part, Add()));
      for_each_dimension(sums, dim,
                         [&](float& x, int c) { x = multiply_add(weight, fresh[width + c], x * shrink); });
    } else {
      const int64_t page = call.block_table[lane.table + key / pages.page_tokens];
      const int64_t token = page * pages.page_tokens + key % pages.page_tokens;
      const float k_scale = k.scale(token);
      const float v_scale = v.scale(token);
      for_each_dimension(query, dim,
                         [&](float& x, int c) { part = multiply_add(x, k.load(token, k_scale, c), part); });
      const auto [shrink, weight] = softmax.add(warp_reduce(part, Add()));
      for_each_dimension(sums, dim, [&](float& x, int c) {
        x = multiply_add(weight, v.load(token, v_scale, c), x * shrink);
      });
    }
  }
  float* const out = call.out + row * width * call.sharing + column;
  for_each_dimension(sums, dim, [&](float& x, int c) { out[c] = keys == 0 ? 0.0F : x / softmax.normalizer; });
}

dim3 grid_for(int64_t rows, int heads) { return dim3(blocks_for(rows, warps), static_cast<unsigned>(heads)); }

}  // namespace

int append_decoder_kv(Queue* queue, const DecoderPages& pages, const float* keys_values, int64_t stride,
                      const int32_t* row_token, int64_t rows) {
  return launch(queue, append_rows, grid_for(rows, pages.heads), dim3(warp_threads, warps), pages,
                keys_values, stride, row_token, rows);
}

int attend_decoder(Queue* queue, const DecoderAttentionCall& call) {
  return launch(queue, for_head_dim(call.pages.head_dim, attend_rows<2>, attend_rows<4>, attend_rows<8>),
                grid_for(call.rows, call.pages.heads * call.sharing), dim3(warp_threads, warps), call);
}

}  // namespace tutti::cuda
