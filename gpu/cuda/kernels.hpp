#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/ctc_search.hpp"
#include "gpu/host_device.hpp"

namespace tutti::cuda {

/// The order in which one owner's copies and kernels run on its GPU: a CUDA stream.
struct Queue;

// Functions that queue an operation of Ops on device memory and return 0 or an error for
// PluginApi::error_text. All arrays are in device memory; those that say which rows and entries are meant
// (`row_begin`, `indices`, ...) too.

/// Ops::layer_norm of x (rows, cols). y may be x.
int layer_norm(Queue* queue, const float* x, int64_t rows, int64_t cols, const float* gamma,
               const float* beta, float eps, float* y);

/// A filter bank's tables in device memory.
struct FbankPlanTables {
  const float* window;          ///< (length)
  const float* roots;           ///< cos and sin of -2 pi k / (2 points), k <= points, interleaved
  const int32_t* order;         ///< where the in-place transform leaves frequency k, k < points
  const int32_t* first_bin;     ///< (mel)
  const int32_t* weight_begin;  ///< (mel + 1): of each filter, in `weights`
  const float* weights;
  int32_t length, points, mel;
  float preemphasis;
};
/// Half of the largest FFT.
inline constexpr int max_fbank_points = 2048;
/// An FbankJob, with its samples in device memory.
struct FbankStream {
  const float* samples;
  float* out;
  int32_t first_frame;  ///< of the call
};
/// Ops::fbank of `frames` frames in all, of which each stream has some.
int fbank(Queue* queue, const FbankPlanTables& tables, const FbankStream* streams, int count, int64_t frames,
          int shift);

/// Ops::mean_of_rows: of `values` values each, from row rows[i] of x (.., width) on.
int mean_of_rows(Queue* queue, const float* x, const int32_t* rows, int64_t count, int64_t width,
                 int64_t values, float* means);

/// Ops::cmvn: out (row_begin[lanes], mel) of each lane's features.
int cmvn(Queue* queue, const float* const* features, const int32_t* row_begin, int lanes, int64_t rows,
         int64_t mel, const float* mean, const float* istd, float* out);

/// Ops::embed_tokens: out (rows, width).
int embed_tokens(Queue* queue, const float* table, const int32_t* ids, const float* positions,
                 const int32_t* at, int64_t rows, int64_t width, float* out);

/// values[row] = x[row][columns[row]] of x (rows, width).
int pick(Queue* queue, const float* x, const int32_t* columns, int64_t rows, int64_t width, float* values);

/// Ops::log_softmax_top_k of x (rows, cols).
int log_softmax_top_k(Queue* queue, float* x, int64_t rows, int cols, int k, int32_t* ids, float* values);

/// What the host is to know of a state after its search, in memory that it has mapped for the GPU: tokens of
/// the best hypothesis follow, up to the most that there may be.
struct alignas(16) CtcFound {
  int32_t tokens;
  int32_t used[CtcStateLayout::most_lists];  ///< of the state's lists

  /// The one of a state in `all`, which has one for each.
  static TUTTI_HOST_DEVICE CtcFound& of(std::byte* all, const CtcSearchSpec& spec, int32_t state) {
    return *reinterpret_cast<CtcFound*>(all + state * bytes(spec));
  }
  static TUTTI_HOST_DEVICE int64_t bytes(const CtcSearchSpec& spec) {
    return int64_t{sizeof(CtcFound)} + spec.max_tokens * int64_t{sizeof(CtcToken)};
  }
  [[nodiscard]] TUTTI_HOST_DEVICE CtcToken* best() { return reinterpret_cast<CtcToken*>(this + 1); }
};
/// CtcSearch::search.
struct CtcSearchCall {
  const CtcSearchLane* lanes;
  const int32_t* ids;      ///< (rows, k)
  const float* log_probs;  ///< (rows, k)
  int32_t* best_ids;       ///< (rows)
  float* best_log_probs;   ///< (rows)
  std::byte* states;       ///< layout.bytes each
  std::byte* found;        ///< a CtcFound and max_tokens tokens each
  CtcSearchSpec spec;
  CtcStateLayout layout;
  int32_t k;
};
int search_greedily(Queue* queue, const CtcSearchCall& call, int lanes);
int search_prefixes(Queue* queue, const CtcSearchCall& call, int lanes);

/// Ops::extend_with_context: `context` rows of `channels` before each lane's rows of x.
int extend_with_context(Queue* queue, const float* x, const int32_t* row_begin, const int32_t* slots,
                        int lanes, int context, int64_t channels, float* cache, float* extended);

/// Consecutive output rows of one lane that one block of threads makes.
struct ConvTile {
  int32_t extended_row;  ///< of the first output's first tap
  int32_t out_row;
  int32_t rows;  ///< at most conv_tile_rows
};
inline constexpr int conv_tile_rows = 8;

/// Ops::conv_module, pointers and sizes of one call.
struct ConvModuleCall {
  const ConvTile* tiles;
  const float* extended;  ///< (extended rows, 2 * channels)
  const float* weight;    ///< (channels, taps)
  const float* bias;
  const float* norm_scale;
  const float* norm_shift;
  float* out;  ///< (rows, channels)
  int64_t channels;
  int32_t taps;
  int32_t folded;  ///< whether the norm is a scale and a shift
  float eps;
};
int conv_module(Queue* queue, const ConvModuleCall& call, int tiles);

/// The rows of a matrix product's left side, where they lie: groups of `group_rows` rows, and a row a
/// sequence of runs of `run_length` values, so that a convolution reads its windows in place.
struct GemmInput {
  const float* base;
  /// By group, its distance from `base` in units of group_stride; null: groups follow each other.
  const int32_t* group_begin;
  int64_t group_rows, group_stride, row_stride;
  int64_t run_length, run_stride;
};

/// What the factors of a matrix product are rounded to. Sums are in f32; of int8 they are integers, and
/// exact.
enum class MatrixType : int32_t { f32, bf16, f16, f8e4m3, int8 };

/// Whether values are codes of a byte, which a scale for each row gives a meaning.
constexpr bool is_coded(MatrixType type) { return type == MatrixType::f8e4m3 || type == MatrixType::int8; }

/// Values in a word of 32 bits, as tensor cores take them.
constexpr int values_per_word(MatrixType type) {
  if (is_coded(type)) return 4;
  return type == MatrixType::f32 ? 1 : 2;
}
/// Words of a row that a step of a product on tensor cores takes.
inline constexpr int tensor_step_words = 16;
/// Words of a row of `in` values, in whole steps.
constexpr int64_t words_of(MatrixType type, int64_t in) {
  const int64_t step = int64_t{tensor_step_words} * values_per_word(type);
  return (in + step - 1) / step * tensor_step_words;
}

/// What a row's codes are worth: value = scale * (code - zero).
struct RowScale {
  float scale;
  int32_t zero;
};
/// Rows as codes of a byte, each row by its own scale. A row that is not finite has a scale of NaN.
struct CodedRows {
  uint32_t* words;   ///< (rows, words_of(type, in)), zeros at the end
  RowScale* scales;  ///< (rows)
};
/// Writes rows [first_row, first_row + rows) of x as `type`: float8 (gpu/float8.hpp) by the least power of
/// two that holds the row, or integers from 0 to 255 between its least and its largest value, or 0, as the
/// CPU has them (gpu/cpu/row_quantizer.hpp).
struct QuantizeCall {
  GemmInput x;
  CodedRows out;
  int64_t first_row, rows, in;
  MatrixType type;
};
int quantize_rows(Queue* queue, const QuantizeCall& call);

/// An Activation of Ops.
enum class GemmActivation : int32_t { none, relu, swish };

/// y (rows, out) = residual + scale * activation(x weight^T + bias).
struct GemmCall {
  GemmInput x;                   ///< for f32, bf16 and f16
  CodedRows coded;               ///< x for f8e4m3 and int8
  const float* weight;           ///< (out, in) for f32
  const uint32_t* weight_words;  ///< (out, words_of(type, in)) for other types, zeros at the end
  const float* weight_scales;    ///< (out) for f8e4m3 and int8: what a code is worth
  const int32_t* weight_sums;    ///< (out) for int8: sums of the codes
  const float* bias;             ///< (out) or null
  const float* residual;         ///< (rows, out) or null; may be y
  float* y;
  int64_t rows, in, out;
  MatrixType type;
  GemmActivation activation;
  float scale;
};
/// For f32.
int gemm(Queue* queue, const GemmCall& call);
// For the other types, on tensor cores. x is rounded to bf16 or f16 as it is read, with infinity beyond the
// type's range.
int gemm_bf16(Queue* queue, const GemmCall& call);
int gemm_f16(Queue* queue, const GemmCall& call);
int gemm_f8(Queue* queue, const GemmCall& call);
int gemm_int8(Queue* queue, const GemmCall& call);
/// Whether there is a kernel for `type` that the GPU runs: 1 or 0.
int can_multiply(int device, MatrixType type, int* can);

/// The first convolution of Ops::subsample: 3x3, stride 2, one input channel, ReLU. Row i of out (rows, (mel
/// - 1) / 2, channels) reads the features (.., mel) from row feature_row[i] on.
struct FirstConvolutionCall {
  const float* features;
  const int32_t* feature_row;
  const float* weight;  ///< (channels, 9)
  const float* bias;    ///< (channels)
  float* out;
  int64_t rows;
  int32_t mel, channels;
};
int first_convolution(Queue* queue, const FirstConvolutionCall& call);

/// What a lane's rows attend to.
struct AttentionLane {
  int32_t keys;                ///< history and new frames
  int32_t cache_begin;         ///< of the first key, from the start of the lane's logical block 0
  int32_t first_key_position;  ///< its row of `positions`
  int32_t table;               ///< where the lane's blocks begin in the block table
};
inline constexpr int max_attention_head_dim = 256;

/// Consecutive rows of one lane that share the keys they are compared with.
struct AttentionTile {
  int32_t lane;
  int32_t row;   ///< the first
  int32_t rows;  ///< at most attention_tile_rows
};
inline constexpr int attention_tile_rows = 4;

/// Ops::paged_attention. First the new frames are written to the pool, row i to its frame row_frame[i],
/// counted over all blocks.
struct AttentionCall {
  const float* qkv;  ///< (rows, 3 * heads * head_dim)
  const float* bias_u;
  const float* bias_v;
  const float* positions;
  float* k;
  float* v;
  float* out;
  const int32_t* row_frame;
  const AttentionTile* tiles;
  const AttentionLane* lanes;
  const int32_t* block_table;
  int64_t rows, tile_count;
  int32_t heads, head_dim, block_size;
};
int paged_attention(Queue* queue, const AttentionCall& call);

/// How a decoder's keys and values are stored.
enum class KvFormat : int32_t { f32, bf16, f8e4m3 };

/// A layer's share of a decoder's K/V pool.
struct DecoderPages {
  std::byte* k;  ///< (tokens, heads, head_dim), tokens counted over all pages
  std::byte* v;
  float* k_scales;  ///< (tokens, heads) beside f8e4m3
  float* v_scales;
  KvFormat format;
  int32_t heads, head_dim, page_tokens;
};

/// Writes keys and values (rows, stride), keys first, row i to token row_token[i].
int append_decoder_kv(Queue* queue, const DecoderPages& pages, const float* keys_values, int64_t stride,
                      const int32_t* row_token, int64_t rows);

/// What a lane's rows attend to.
struct DecoderLane {
  int32_t first_row;
  int32_t first_row_keys;  ///< that row 0 attends to
  int32_t table;           ///< where the lane's pages begin in the block table
  int32_t given;           ///< whether its keys and values are read as they were given
};

/// The attention of Ops::decoder_self_attention, where each next row of a lane sees a key more, and of
/// Ops::decoder_cross_attention.
struct DecoderAttentionCall {
  DecoderPages pages;
  const float* queries;  ///< (rows, stride)
  const float* given;    ///< (rows, stride): keys, then values
  float* out;            ///< (rows, heads * sharing * head_dim)
  const int32_t* row_lane;
  const DecoderLane* lanes;
  const int32_t* block_table;
  int64_t rows, stride;
  int32_t sharing;  ///< query heads that share a key's
  int32_t causal;
};
int attend_decoder(Queue* queue, const DecoderAttentionCall& call);

/// A tensor as (outer, entries, inner) around the axis that is indexed. `inner` counts elements of
/// `element_size` bytes: 1, 2 or 4.
struct IndexedAxis {
  int64_t outer, entries, inner;
  int32_t element_size;
};
/// Ops::index_select of `from`; `to` has `count` entries on the axis.
int index_select(Queue* queue, const IndexedAxis& axis, const std::byte* from, const int32_t* indices,
                 int count, std::byte* to);
/// Ops::index_copy into `to`; `from` has `count` entries on the axis. Of entries for the same index the last
/// one stays.
int index_copy(Queue* queue, const IndexedAxis& axis, const std::byte* from, const int32_t* indices,
               int count, std::byte* to);
/// Ops::index_fill with the low element_size bytes of `bits`.
int index_fill(Queue* queue, const IndexedAxis& axis, const int32_t* indices, int count, uint32_t bits,
               std::byte* to);

/// The operations of Ops that there are, separated by spaces.
inline constexpr const char* operations =
    "copy read index_select index_copy index_fill layer_norm fbank mean_of_rows cmvn embed_tokens pick "
    "log_softmax_top_k search extend_with_context conv_module linear subsample paged_attention "
    "append_decoder_kv "
    "decoder_self_attention decoder_cross_attention";

/// The functions above, as one build of them is offered to CudaOps.
struct KernelTable {
  decltype(&cuda::layer_norm) layer_norm;
  decltype(&cuda::fbank) fbank;
  decltype(&cuda::mean_of_rows) mean_of_rows;
  decltype(&cuda::cmvn) cmvn;
  decltype(&cuda::embed_tokens) embed_tokens;
  decltype(&cuda::pick) pick;
  decltype(&cuda::log_softmax_top_k) log_softmax_top_k;
  decltype(&cuda::search_greedily) search_greedily;
  decltype(&cuda::search_prefixes) search_prefixes;
  decltype(&cuda::extend_with_context) extend_with_context;
  decltype(&cuda::conv_module) conv_module;
  decltype(&cuda::gemm) gemm;
  decltype(&cuda::gemm_bf16) gemm_bf16;
  decltype(&cuda::gemm_f16) gemm_f16;
  decltype(&cuda::gemm_f8) gemm_f8;
  decltype(&cuda::gemm_int8) gemm_int8;
  decltype(&cuda::quantize_rows) quantize_rows;
  decltype(&cuda::can_multiply) can_multiply;
  decltype(&cuda::first_convolution) first_convolution;
  decltype(&cuda::paged_attention) paged_attention;
  decltype(&cuda::append_decoder_kv) append_decoder_kv;
  decltype(&cuda::attend_decoder) attend_decoder;
  decltype(&cuda::index_select) index_select;
  decltype(&cuda::index_copy) index_copy;
  decltype(&cuda::index_fill) index_fill;
};
inline constexpr KernelTable kernel_table{.layer_norm = layer_norm,
                                          .fbank = fbank,
                                          .mean_of_rows = mean_of_rows,
                                          .cmvn = cmvn,
                                          .embed_tokens = embed_tokens,
                                          .pick = pick,
                                          .log_softmax_top_k = log_softmax_top_k,
                                          .search_greedily = search_greedily,
                                          .search_prefixes = search_prefixes,
                                          .extend_with_context = extend_with_context,
                                          .conv_module = conv_module,
                                          .gemm = gemm,
                                          .gemm_bf16 = gemm_bf16,
                                          .gemm_f16 = gemm_f16,
                                          .gemm_f8 = gemm_f8,
                                          .gemm_int8 = gemm_int8,
                                          .quantize_rows = quantize_rows,
                                          .can_multiply = can_multiply,
                                          .first_convolution = first_convolution,
                                          .paged_attention = paged_attention,
                                          .append_decoder_kv = append_decoder_kv,
                                          .attend_decoder = attend_decoder,
                                          .index_select = index_select,
                                          .index_copy = index_copy,
                                          .index_fill = index_fill};

}  // namespace tutti::cuda
