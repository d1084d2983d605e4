#include "gpu/cpu/decoder_attention.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <limits>

#include "gpu/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/decoder_attention.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "gpu/cpu/exp-inl.hpp"
#include "gpu/cpu/kv_format-inl.hpp"
#include "gpu/cpu/simd-inl.hpp"
#include "hwy/highway.h"

#ifndef TUTTI_GPU_CPU_DECODER_ATTENTION_ONCE
#define TUTTI_GPU_CPU_DECODER_ATTENTION_ONCE
namespace tutti::cpu {

/// Keys between two updates of the running maximum and sum, counted from a lane's first key: widened they fit
/// in the first-level cache.
inline constexpr size_t decoder_key_tile = 32;
/// Queries that share a widened tile.
inline constexpr size_t decoder_query_block = 32;
/// The widest vector in use: rows of a tile are padded to a multiple of it.
inline constexpr size_t decoder_row_pad = 16;
/// Keys scored together, as many independent sums.
inline constexpr size_t keys_at_once = 8;
static_assert(decoder_key_tile % keys_at_once == 0);

inline size_t padded_dim(size_t dim) {
  return (dim + decoder_row_pad - 1) / decoder_row_pad * decoder_row_pad;
}

/// Keys or values of one head of one lane.
struct HeadVectors {
  DType format;
  const std::byte* stored;  ///< the head's columns of the layer's pages
  const float* scales;      ///< the head's column
  const float* given;  ///< of key 0 where they are not read from the cache, else null; the head's columns
};

/// One K/V head of one lane, free of tensors.
struct DecoderHead {
  HeadVectors k;
  HeadVectors v;
  const int32_t* block_table;
  size_t page_tokens;
  size_t heads;         ///< K/V heads of the cache
  size_t given_stride;  ///< floats between two given keys
  size_t dim;
  const float* queries;  ///< of the lane's first row; the columns of the heads that share this one
  size_t query_stride;
  size_t sharing;  ///< query heads that share this one
  size_t rows;
  size_t first_row_keys;  ///< keys that row 0 attends to
  size_t keys_per_row;    ///< by how many more each next row
  float* out;
  size_t out_stride;
  /// Row by row, in a row head by head.
  [[nodiscard]] size_t num_queries() const { return rows * sharing; }
  [[nodiscard]] size_t query_offset(size_t query, size_t row_stride) const {
    return query / sharing * row_stride + query % sharing * dim;
  }
  [[nodiscard]] size_t keys_of(size_t query) const { return first_row_keys + query / sharing * keys_per_row; }
};

struct DecoderScratch {
  float* queries;  ///< (decoder_query_block, padded_dim), scaled
  float* sums;     ///< (decoder_query_block, padded_dim): weighted sums of values
  float* k;        ///< (decoder_key_tile, padded_dim)
  float* v;        ///< the same
  float* weights;  ///< (decoder_key_tile + decoder_row_pad): scores, then exp(score - maximum)
};

}  // namespace tutti::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace {

using D = hn::CappedTag<float, decoder_row_pad>;
using V = hn::Vec<D>;
constexpr size_t vector_lanes = hn::MaxLanes(D());

/// Encodes the heads of one token. `elements` and `scales` are the token's in the cache.
void store_token(const float* values, size_t heads, size_t dim, DType format, std::byte* elements,
                 float* scales) {
  const D d;
  switch (format) {
    case DType::bf16:
      return encode_bfloat16(d, values, heads * dim, reinterpret_cast<uint16_t*>(elements));
    case DType::f8e4m3:
      for (size_t head = 0; head < heads; ++head) {
        scales[head] =
            encode_float8(d, values + head * dim, dim, reinterpret_cast<uint8_t*>(elements) + head * dim);
      }
      return;
    default:
      std::copy_n(values, heads * dim, reinterpret_cast<float*>(elements));
  }
}

/// Writes the vector of key `key`, at token `at` of the cache, as floats with zeros up to whole vectors.
void load_row(const DecoderHead& head, const HeadVectors& x, size_t key, size_t at, float* row) {
  const D d;
  const size_t element = at * head.heads * head.dim;
  if (x.given != nullptr) {
    std::copy_n(x.given + key * head.given_stride, head.dim, row);
  } else if (x.format == DType::f8e4m3) {
    decode_float8(d, reinterpret_cast<const uint8_t*>(x.stored) + element, x.scales[at * head.heads],
                  head.dim, row);
  } else if (x.format == DType::bf16) {
    decode_bfloat16(d, reinterpret_cast<const uint16_t*>(x.stored) + element, head.dim, row);
  } else {
    std::copy_n(reinterpret_cast<const float*>(x.stored) + element, head.dim, row);
  }
  std::fill(row + head.dim, row + padded_dim(head.dim), 0.0F);
}

/// The next keys and values, walking the block table.
void load_tile(const DecoderHead& head, size_t first, size_t count, const DecoderScratch& s) {
  size_t page = first / head.page_tokens;
  size_t offset = first % head.page_tokens;
  for (size_t j = 0; j < count; ++j) {
    const size_t at = static_cast<size_t>(head.block_table[page]) * head.page_tokens + offset;
    load_row(head, head.k, first + j, at, s.k + j * padded_dim(head.dim));
    load_row(head, head.v, first + j, at, s.v + j * padded_dim(head.dim));
    if (++offset == head.page_tokens) offset = 0, ++page;
  }
}

/// weights[j] = q . k_j for `count` rows of k and up to keys_at_once - 1 more, whatever they hold. The order
/// of a key's sum depends on the dimension alone.
HWY_INLINE void score(const float* k, size_t stride, size_t count, const float* query, size_t dim,
                      float* weights) {
  const D d;
  for (size_t j = 0; j < count; j += keys_at_once) {
    V sum[keys_at_once];
    HWY_UNROLL(16)
    for (size_t i = 0; i < keys_at_once; ++i) sum[i] = hn::Zero(d);
    for (size_t c = 0; c < dim; c += vector_lanes) {
      const V q = hn::LoadU(d, query + c);
      HWY_UNROLL(16)
      for (size_t i = 0; i < keys_at_once; ++i)
        sum[i] = hn::MulAdd(q, hn::LoadU(d, k + (j + i) * stride + c), sum[i]);
    }
    HWY_UNROLL(16)
    for (size_t i = 0; i < keys_at_once; ++i) weights[j + i] = hn::GetLane(hn::SumOfLanes(d, sum[i]));
  }
}

/// sums[c ...] += weights . values for that many vectors of dimensions.
template <size_t vectors>
HWY_INLINE void accumulate(const float* v, size_t stride, size_t count, const float* weights, size_t c,
                           float* sums) {
  const D d;
  V sum[vectors];
  HWY_UNROLL(8)
  for (size_t i = 0; i < vectors; ++i) sum[i] = hn::LoadU(d, sums + c + i * vector_lanes);
  for (size_t j = 0; j < count; ++j) {
    const V w = hn::Set(d, weights[j]);
    HWY_UNROLL(8)
    for (size_t i = 0; i < vectors; ++i) {
      sum[i] = hn::MulAdd(w, hn::LoadU(d, v + j * stride + c + i * vector_lanes), sum[i]);
    }
  }
  HWY_UNROLL(8)
  for (size_t i = 0; i < vectors; ++i) hn::StoreU(sum[i], d, sums + c + i * vector_lanes);
}

/// Softmax and weighted sum of one query so far.
struct QueryState {
  float maximum = -std::numeric_limits<float>::infinity();
  float normalizer = 0;

  /// Takes a tile whose scores are in `weights` into account.
  void add(const float* v, size_t stride, size_t count, size_t dim, float* weights, float* sums) {
    const D d;
    std::fill_n(weights + count, vector_lanes, -std::numeric_limits<float>::infinity());
    V largest = hn::Set(d, maximum);
    for (size_t j = 0; j < count; j += vector_lanes) largest = hn::Max(largest, hn::LoadU(d, weights + j));
    largest = hn::MaxOfLanes(d, largest);
    const V shrink = exp_nonpositive(d, hn::Sub(hn::Set(d, maximum), largest));
    if (normalizer != 0) {
      for (size_t c = 0; c < dim; c += vector_lanes) {
        hn::StoreU(hn::Mul(hn::LoadU(d, sums + c), shrink), d, sums + c);
      }
    }
    maximum = hn::GetLane(largest);
    for (size_t j = 0; j < count; j += vector_lanes) {
      hn::StoreU(exp_nonpositive(d, hn::Sub(hn::LoadU(d, weights + j), largest)), d, weights + j);
    }
    normalizer =
        normalizer * hn::GetLane(shrink) + sum_over(d, weights, count, [](V w) HWY_ATTR { return w; });
    size_t c = 0;
    for (; c + 8 * vector_lanes <= dim; c += 8 * vector_lanes)
      accumulate<8>(v, stride, count, weights, c, sums);
    for (; c + 4 * vector_lanes <= dim; c += 4 * vector_lanes)
      accumulate<4>(v, stride, count, weights, c, sums);
    for (; c < dim; c += vector_lanes) accumulate<1>(v, stride, count, weights, c, sums);
  }
};

void load_query(const DecoderHead& head, size_t query, float scale, float* row) {
  const float* from = head.queries + head.query_offset(query, head.query_stride);
  for (size_t c = 0; c < head.dim; ++c) row[c] = from[c] * scale;
  std::fill(row + head.dim, row + padded_dim(head.dim), 0.0F);
}

void attend_head(const DecoderHead& head, const DecoderScratch& s) {
  const float scale = 1.0F / std::sqrt(static_cast<float>(head.dim));
  const size_t stride = padded_dim(head.dim);
  // Dimensions in whole vectors of this instruction set, of which the tile's rows may have more.
  const size_t dim = (head.dim + vector_lanes - 1) / vector_lanes * vector_lanes;
  for (size_t first = 0; first < head.num_queries(); first += decoder_query_block) {
    const size_t queries = std::min(decoder_query_block, head.num_queries() - first);
    QueryState states[decoder_query_block];
    for (size_t i = 0; i < queries; ++i) load_query(head, first + i, scale, s.queries + i * stride);
    std::fill_n(s.sums, queries * stride, 0.0F);
    const size_t block_keys = head.keys_of(first + queries - 1);
    for (size_t begin = 0; begin < block_keys; begin += decoder_key_tile) {
      load_tile(head, begin, std::min(decoder_key_tile, block_keys - begin), s);
      for (size_t i = 0; i < queries; ++i) {
        const size_t visible = head.keys_of(first + i);
        if (visible <= begin) continue;
        const size_t count = std::min(decoder_key_tile, visible - begin);
        score(s.k, stride, count, s.queries + i * stride, dim, s.weights);
        states[i].add(s.v, stride, count, dim, s.weights, s.sums + i * stride);
      }
    }
    for (size_t i = 0; i < queries; ++i) {
      const float share = block_keys == 0 ? 0.0F : 1.0F / states[i].normalizer;
      float* const out = head.out + head.query_offset(first + i, head.out_stride);
      for (size_t c = 0; c < head.dim; ++c) out[c] = s.sums[i * stride + c] * share;
    }
  }
}

}  // namespace
}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {
namespace {

HWY_EXPORT(store_token);
HWY_EXPORT(attend_head);

/// Extents of a layer's share, of K as of V.
struct CacheShape {
  explicit CacheShape(const DecoderKv& kv)
      : page_tokens(static_cast<size_t>(kv.k.shape[1])),
        heads(static_cast<size_t>(kv.k.shape[2])),
        dim(static_cast<size_t>(kv.k.shape[3])) {
    assert(dim <= max_decoder_head_dim);
  }
  [[nodiscard]] size_t width() const { return heads * dim; }
  size_t page_tokens, heads, dim;
};

const int32_t* table_of(const DecoderKv& kv, int lane) {
  return kv.block_table.data() + static_cast<size_t>(lane) * static_cast<size_t>(kv.table_width);
}

/// Stores one token's vectors, K or V.
void store(const CacheShape& shape, const TensorView& to, const TensorView& scales, size_t at,
           const float* values) {
  float* const token_scales = to.dtype == DType::f8e4m3 ? scales.f32() + at * shape.heads : nullptr;
  HWY_DYNAMIC_DISPATCH(store_token)
  (values, shape.heads, shape.dim, to.dtype, to.data + at * shape.width() * size_of(to.dtype), token_scales);
}

/// Writes a lane's rows behind its history. `keys_values` is of row 0 of the batch: keys, then values.
void append_lane(const BatchLayout& layout, const DecoderKv& kv, const float* keys_values, size_t stride,
                 int lane) {
  const CacheShape shape(kv);
  auto token = static_cast<size_t>(kv.cache_seqlens[static_cast<size_t>(lane)]);
  for (int row = layout.row_begin[lane]; row < layout.row_begin[lane + 1]; ++row, ++token) {
    assert(token / shape.page_tokens < static_cast<size_t>(kv.table_width));
    const auto page = static_cast<size_t>(table_of(kv, lane)[token / shape.page_tokens]);
    const size_t at = page * shape.page_tokens + token % shape.page_tokens;
    const float* const fresh = keys_values + static_cast<size_t>(row) * stride;
    store(shape, kv.k, kv.k_scales, at, fresh);
    store(shape, kv.v, kv.v_scales, at, fresh + shape.width());
  }
}

HeadVectors vectors_of(const TensorView& stored, const TensorView& scales, const CacheShape& shape,
                       size_t head, const float* given) {
  return {.format = stored.dtype,
          .stored = stored.data + head * shape.dim * size_of(stored.dtype),
          .scales = stored.dtype == DType::f8e4m3 ? scales.f32() + head : nullptr,
          .given = given};
}

DecoderScratch divide(std::span<float> scratch, size_t dim) {
  const size_t row = padded_dim(dim);
  float* const queries = scratch.data();
  float* const sums = queries + decoder_query_block * row;
  float* const k = sums + decoder_query_block * row;
  float* const v = k + decoder_key_tile * row;
  return {queries, sums, k, v, v + decoder_key_tile * row};
}

/// Attends a lane's rows head by head. `given` is the lane's first new key where they are not read from the
/// cache, else null.
void attend_lane(const BatchLayout& layout, const DecoderKv& kv, const TensorView& in, const float* given,
                 bool causal, const TensorView& out, const DecoderScratch& scratch, int lane) {
  const CacheShape shape(kv);
  const size_t query_heads = static_cast<size_t>(out.cols()) / shape.dim;
  assert(query_heads % shape.heads == 0 && static_cast<size_t>(out.cols()) == query_heads * shape.dim);
  const size_t sharing = query_heads / shape.heads;
  const auto history = static_cast<size_t>(kv.cache_seqlens[static_cast<size_t>(lane)]);
  const auto in_stride = static_cast<size_t>(in.cols());
  const auto out_stride = static_cast<size_t>(out.cols());
  const auto row = static_cast<size_t>(layout.row_begin[static_cast<size_t>(lane)]);
  const auto attend = HWY_DYNAMIC_DISPATCH(attend_head);
  for (size_t head = 0; head < shape.heads; ++head) {
    const float* const given_k = given == nullptr ? nullptr : given + head * shape.dim;
    const float* const given_v = given == nullptr ? nullptr : given_k + shape.width();
    const size_t column = head * sharing * shape.dim;
    attend({.k = vectors_of(kv.k, kv.k_scales, shape, head, given_k),
            .v = vectors_of(kv.v, kv.v_scales, shape, head, given_v),
            .block_table = table_of(kv, lane),
            .page_tokens = shape.page_tokens,
            .heads = shape.heads,
            .given_stride = in_stride,
            .dim = shape.dim,
            .queries = in.f32() + row * in_stride + column,
            .query_stride = in_stride,
            .sharing = sharing,
            .rows = static_cast<size_t>(layout.rows(lane)),
            .first_row_keys = causal ? history + 1 : history,
            .keys_per_row = causal ? size_t{1} : size_t{0},
            .out = out.f32() + row * out_stride + column,
            .out_stride = out_stride},
           scratch);
  }
}

}  // namespace

size_t decoder_attention_scratch_floats(int head_dim) {
  const size_t row = padded_dim(static_cast<size_t>(head_dim));
  return 2 * (decoder_query_block + decoder_key_tile) * row + decoder_key_tile + decoder_row_pad;
}

void append_decoder_kv(const BatchLayout& layout, const DecoderKv& kv, const TensorView& keys_values) {
  const auto stride = static_cast<size_t>(keys_values.cols());
  assert(stride == 2 * CacheShape(kv).width());
  for (int lane = 0; lane < layout.lanes(); ++lane) append_lane(layout, kv, keys_values.f32(), stride, lane);
}

void decoder_self_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& qkv,
                            const TensorView& out, std::span<float> scratch) {
  const CacheShape shape(kv);
  const auto stride = static_cast<size_t>(qkv.cols());
  const auto query_width = static_cast<size_t>(out.cols());
  assert(stride == query_width + 2 * shape.width());
  const DecoderScratch parts = divide(scratch, shape.dim);
  for (int lane = 0; lane < layout.lanes(); ++lane) {
    if (layout.rows(lane) == 0) continue;
    append_lane(layout, kv, qkv.f32() + query_width, stride, lane);
    const bool prompt = kv.cache_seqlens[static_cast<size_t>(lane)] == 0;
    const auto row = static_cast<size_t>(layout.row_begin[static_cast<size_t>(lane)]);
    const float* const given = prompt ? qkv.f32() + row * stride + query_width : nullptr;
    attend_lane(layout, kv, qkv, given, true, out, parts, lane);
  }
}

void decoder_cross_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& queries,
                             const TensorView& out, std::span<float> scratch) {
  const DecoderScratch parts = divide(scratch, CacheShape(kv).dim);
  for (int lane = 0; lane < layout.lanes(); ++lane) {
    if (layout.rows(lane) == 0) continue;
    attend_lane(layout, kv, queries, nullptr, false, out, parts, lane);
  }
}

}  // namespace tutti::cpu
#endif  // HWY_ONCE
