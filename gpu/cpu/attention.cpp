#include "gpu/cpu/attention.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>

#include "gpu/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/attention.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "gpu/cpu/exp-inl.hpp"
#include "gpu/cpu/simd-inl.hpp"
#include "hwy/highway.h"

#ifndef TUTTI_GPU_CPU_ATTENTION_ONCE
#define TUTTI_GPU_CPU_ATTENTION_ONCE
namespace tutti::cpu {

/// Queries of a tile, one a vector lane: a query's arithmetic is sequential over dimensions and keys, so
/// neither its place in the tile nor the tile's other queries can touch its result.
inline constexpr size_t query_tile = 16;
/// Keys between two updates of the running maximum and sum. Tiles are counted from a lane's first key.
inline constexpr size_t key_tile = 128;
/// Rows of slack behind arrays whose last group of keys or dimensions may be incomplete.
inline constexpr size_t accumulators = 12;

/// One head of one lane, free of tensors.
struct AttentionHead {
  const float* k;  ///< the head's columns of the layer's pool
  const float* v;
  const int32_t* block_table;
  size_t block_size;
  size_t frame_stride;  ///< floats between two frames of the pool
  size_t cache_begin;
  size_t keys;             ///< history and new frames
  const float* positions;  ///< of key 0; the head's columns
  size_t position_stride;
  const float* bias_u;
  const float* bias_v;
  size_t dim;
  const float* queries;  ///< of the first new frame; the head's columns
  size_t query_stride;
  size_t rows;
  float* out;
  size_t out_stride;
};

/// Scratch, all with one vector of query_tile queries per row.
struct AttentionScratch {
  float* content;   ///< (dim): q + u
  float* position;  ///< (dim): q + v
  float* weights;   ///< (key_tile + accumulators): scores, then exp(score - maximum)
  float* sums;      ///< (dim + accumulators): weighted sum of values
};

}  // namespace tutti::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {

using D = hn::CappedTag<float, query_tile>;
using V = hn::Vec<D>;
constexpr size_t vector_lanes = hn::MaxLanes(D());
constexpr size_t tile_vectors = query_tile / vector_lanes;
/// Keys (or dimensions) computed together: as many as make that many independent accumulators.
constexpr size_t at_once = tile_vectors < accumulators ? accumulators / tile_vectors : 1;

/// Pointers to the next keys' rows, walking the block table. The last group repeats its last row.
struct KeyTile {
  const float* k[key_tile + accumulators];
  const float* v[key_tile + accumulators];
  const float* p[key_tile + accumulators];

  void fill(const AttentionHead& head, size_t first, size_t count) {
    size_t block = (head.cache_begin + first) / head.block_size;
    size_t offset = (head.cache_begin + first) % head.block_size;
    for (size_t j = 0; j < count; ++j) {
      const size_t frame = static_cast<size_t>(head.block_table[block]) * head.block_size + offset;
      k[j] = head.k + frame * head.frame_stride;
      v[j] = head.v + frame * head.frame_stride;
      p[j] = head.positions + (first + j) * head.position_stride;
      if (++offset == head.block_size) offset = 0, ++block;
    }
    std::fill_n(k + count, accumulators, k[count - 1]);
    std::fill_n(v + count, accumulators, v[count - 1]);
    std::fill_n(p + count, accumulators, p[count - 1]);
  }
};

/// Transposes a tile of queries, each with its two biases; missing queries repeat the last one.
void load_queries(const AttentionHead& head, size_t first, size_t count, const AttentionScratch& s) {
  for (size_t i = 0; i < query_tile; ++i) {
    const float* q = head.queries + (first + std::min(i, count - 1)) * head.query_stride;
    for (size_t c = 0; c < head.dim; ++c) {
      s.content[c * query_tile + i] = q[c] + head.bias_u[c];
      s.position[c * query_tile + i] = q[c] + head.bias_v[c];
    }
  }
}

/// weights[j] = scaled scores of at_once keys.
HWY_INLINE void score_group(const AttentionHead& head, const KeyTile& keys, size_t j, V scale,
                            const AttentionScratch& s) {
  const D d;
  V sum[at_once][tile_vectors];
  HWY_UNROLL(16)
  for (size_t i = 0; i < at_once; ++i) {
    HWY_UNROLL(16)
    for (size_t x = 0; x < tile_vectors; ++x) sum[i][x] = hn::Zero(d);
  }
  for (size_t c = 0; c < head.dim; ++c) {
    const float* content = s.content + c * query_tile;
    const float* position = s.position + c * query_tile;
    HWY_UNROLL(16)
    for (size_t i = 0; i < at_once; ++i) {
      const V k = hn::Set(d, keys.k[j + i][c]);
      HWY_UNROLL(16)
      for (size_t x = 0; x < tile_vectors; ++x) {
        sum[i][x] = hn::MulAdd(k, hn::LoadU(d, content + x * vector_lanes), sum[i][x]);
      }
    }
    HWY_UNROLL(16)
    for (size_t i = 0; i < at_once; ++i) {
      const V p = hn::Set(d, keys.p[j + i][c]);
      HWY_UNROLL(16)
      for (size_t x = 0; x < tile_vectors; ++x) {
        sum[i][x] = hn::MulAdd(p, hn::LoadU(d, position + x * vector_lanes), sum[i][x]);
      }
    }
  }
  HWY_UNROLL(16)
  for (size_t i = 0; i < at_once; ++i) {
    HWY_UNROLL(16)
    for (size_t x = 0; x < tile_vectors; ++x) {
      hn::StoreU(hn::Mul(sum[i][x], scale), d, s.weights + (j + i) * query_tile + x * vector_lanes);
    }
  }
}

/// Turns the tile's scores into weights and brings `maximum`, `normalizer` and the weighted sums so far to
/// the new maximum.
HWY_INLINE void exponentiate(size_t dim, size_t count, bool first_tile, V* maximum, V* normalizer,
                             const AttentionScratch& s) {
  const D d;
  for (size_t x = 0; x < tile_vectors; ++x) {
    float* weights = s.weights + x * vector_lanes;
    V largest = first_tile ? hn::LoadU(d, weights) : maximum[x];
    for (size_t j = 0; j < count; ++j) largest = hn::Max(largest, hn::LoadU(d, weights + j * query_tile));
    float* sums = s.sums + x * vector_lanes;
    if (first_tile) {
      normalizer[x] = hn::Zero(d);
      for (size_t c = 0; c < dim; ++c) hn::StoreU(hn::Zero(d), d, sums + c * query_tile);
    } else {
      const V shrink = exp_nonpositive(d, hn::Sub(maximum[x], largest));
      normalizer[x] = hn::Mul(normalizer[x], shrink);
      for (size_t c = 0; c < dim; ++c) {
        hn::StoreU(hn::Mul(hn::LoadU(d, sums + c * query_tile), shrink), d, sums + c * query_tile);
      }
    }
    maximum[x] = largest;
    for (size_t j = 0; j < count; ++j) {
      const V w = exp_nonpositive(d, hn::Sub(hn::LoadU(d, weights + j * query_tile), largest));
      hn::StoreU(w, d, weights + j * query_tile);
      normalizer[x] = hn::Add(normalizer[x], w);
    }
  }
}

/// sums[c] += weights . values for at_once dimensions; those past the last repeat it into the slack rows.
HWY_INLINE void accumulate_group(const KeyTile& keys, size_t count, size_t c, size_t dim,
                                 const AttentionScratch& s) {
  const D d;
  size_t column[at_once];
  V sum[at_once][tile_vectors];
  HWY_UNROLL(16)
  for (size_t i = 0; i < at_once; ++i) {
    column[i] = std::min(c + i, dim - 1);
    HWY_UNROLL(16)
    for (size_t x = 0; x < tile_vectors; ++x) {
      sum[i][x] = hn::LoadU(d, s.sums + (c + i) * query_tile + x * vector_lanes);
    }
  }
  for (size_t j = 0; j < count; ++j) {
    const float* weights = s.weights + j * query_tile;
    HWY_UNROLL(16)
    for (size_t i = 0; i < at_once; ++i) {
      const V v = hn::Set(d, keys.v[j][column[i]]);
      HWY_UNROLL(16)
      for (size_t x = 0; x < tile_vectors; ++x) {
        sum[i][x] = hn::MulAdd(v, hn::LoadU(d, weights + x * vector_lanes), sum[i][x]);
      }
    }
  }
  HWY_UNROLL(16)
  for (size_t i = 0; i < at_once; ++i) {
    HWY_UNROLL(16)
    for (size_t x = 0; x < tile_vectors; ++x) {
      hn::StoreU(sum[i][x], d, s.sums + (c + i) * query_tile + x * vector_lanes);
    }
  }
}

void store_outputs(const AttentionHead& head, size_t first, size_t count, const V* normalizer,
                   const AttentionScratch& s) {
  const D d;
  for (size_t x = 0; x < tile_vectors; ++x) {
    const V share = hn::Div(hn::Set(d, 1.0F), normalizer[x]);
    float* sums = s.sums + x * vector_lanes;
    for (size_t c = 0; c < head.dim; ++c) {
      hn::StoreU(hn::Mul(hn::LoadU(d, sums + c * query_tile), share), d, sums + c * query_tile);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    float* out = head.out + (first + i) * head.out_stride;
    for (size_t c = 0; c < head.dim; ++c) out[c] = s.sums[c * query_tile + i];
  }
}

void attend_head(const AttentionHead& head, const AttentionScratch& s) {
  const D d;
  const V scale = hn::Set(d, 1.0F / std::sqrt(static_cast<float>(head.dim)));
  KeyTile keys;
  for (size_t first = 0; first < head.rows; first += query_tile) {
    const size_t queries = std::min(query_tile, head.rows - first);
    load_queries(head, first, queries, s);
    V maximum[tile_vectors], normalizer[tile_vectors];
    for (size_t begin = 0; begin < head.keys; begin += key_tile) {
      const size_t count = std::min(key_tile, head.keys - begin);
      keys.fill(head, begin, count);
      for (size_t j = 0; j < count; j += at_once) score_group(head, keys, j, scale, s);
      exponentiate(head.dim, count, begin == 0, maximum, normalizer, s);
      for (size_t c = 0; c < head.dim; c += at_once) accumulate_group(keys, count, c, head.dim, s);
    }
    store_outputs(head, first, queries, normalizer, s);
  }
}

}  // namespace
}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
namespace {

/// Copies a lane's new K and V rows to the logical frames behind its history.
void write_new_frames(const BatchLayout& layout, const PagedKv& kv, const TensorView& qkv, int lane) {
  const auto block_size = static_cast<size_t>(kv.k.shape[1]);
  const auto width = static_cast<size_t>(qkv.cols()) / 3;
  const int32_t* table =
      kv.block_table.data() + static_cast<size_t>(lane) * static_cast<size_t>(kv.table_width);
  auto frame = static_cast<size_t>(kv.cache_begin[lane] + kv.cache_seqlens[lane]);
  for (int row = layout.row_begin[lane]; row < layout.row_begin[lane + 1]; ++row, ++frame) {
    assert(frame / block_size < static_cast<size_t>(kv.table_width));
    const size_t at = static_cast<size_t>(table[frame / block_size]) * block_size + frame % block_size;
    const float* const fresh = qkv.f32() + static_cast<size_t>(row) * 3 * width;
    std::copy_n(fresh + width, width, kv.k.f32() + at * width);
    std::copy_n(fresh + 2 * width, width, kv.v.f32() + at * width);
  }
}

AttentionHead head_of(const BatchLayout& layout, const PagedKv& kv, const AttentionInputs& in,
                      const TensorView& out, int lane, size_t head) {
  const auto dim = static_cast<size_t>(kv.k.shape[3]);
  const auto width = static_cast<size_t>(kv.k.shape[2]) * dim;
  const size_t column = head * dim;
  const auto row = static_cast<size_t>(layout.row_begin[lane]);
  const int first_key_position = in.first_position[lane] - kv.cache_seqlens[lane];
  const auto keys = static_cast<size_t>(kv.cache_seqlens[lane] + layout.rows(lane));
  assert(first_key_position >= 0 && first_key_position + static_cast<int64_t>(keys) <= in.positions.rows());
  return {
      .k = kv.k.f32() + column,
      .v = kv.v.f32() + column,
      .block_table = kv.block_table.data() + static_cast<size_t>(lane) * static_cast<size_t>(kv.table_width),
      .block_size = static_cast<size_t>(kv.k.shape[1]),
      .frame_stride = width,
      .cache_begin = static_cast<size_t>(kv.cache_begin[lane]),
      .keys = keys,
      .positions = in.positions.f32() + static_cast<size_t>(first_key_position) * width + column,
      .position_stride = width,
      .bias_u = in.pos_bias_u.f32() + column,
      .bias_v = in.pos_bias_v.f32() + column,
      .dim = dim,
      .queries = in.qkv.f32() + row * 3 * width + column,
      .query_stride = 3 * width,
      .rows = static_cast<size_t>(layout.rows(lane)),
      .out = out.f32() + row * width + column,
      .out_stride = width};
}

}  // namespace

HWY_EXPORT(attend_head);

size_t attention_scratch_floats(int head_dim) {
  const auto dim = static_cast<size_t>(head_dim);
  return query_tile * (dim + dim + (key_tile + accumulators) + (dim + accumulators));
}

void paged_attention(const BatchLayout& layout, const PagedKv& kv, const AttentionInputs& in,
                     const TensorView& out, std::span<float> scratch) {
  const auto heads = static_cast<size_t>(kv.k.shape[2]);
  const auto dim = static_cast<size_t>(kv.k.shape[3]);
  assert(in.qkv.cols() == static_cast<int64_t>(3 * heads * dim));
  assert(scratch.size() >= attention_scratch_floats(static_cast<int>(dim)));
  float* const content = scratch.data();
  float* const position = content + dim * query_tile;
  float* const weights = position + dim * query_tile;
  const AttentionScratch s{content, position, weights, weights + (key_tile + accumulators) * query_tile};
  const auto attend = HWY_DYNAMIC_DISPATCH(attend_head);
  for (int lane = 0; lane < layout.lanes(); ++lane) {
    write_new_frames(layout, kv, in.qkv, lane);
    for (size_t head = 0; head < heads; ++head) attend(head_of(layout, kv, in, out, lane, head), s);
  }
}

}  // namespace tutti::cpu
#endif  // HWY_ONCE
