#pragma once

#include <cassert>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "audio/fbank.hpp"
#include "gpu/ctc_search.hpp"
#include "gpu/outbox.hpp"
#include "gpu/stopwatch.hpp"
#include "gpu/tensor.hpp"

namespace tutti {

enum class Activation : uint8_t { none, relu, swish };

/// What one tick runs: the lanes' rows packed back to back, no gaps, lane i at [row_begin[i],
/// row_begin[i+1]).
struct BatchLayout {
  std::span<const int32_t> row_begin;  ///< lanes + 1 entries, the first 0
  [[nodiscard]] int lanes() const { return static_cast<int>(row_begin.size()) - 1; }
  [[nodiscard]] int rows() const { return row_begin.back(); }
  [[nodiscard]] int rows(int lane) const { return row_begin[lane + 1] - row_begin[lane]; }
};

/// A weight matrix and bias in the layout the backend's kernel reads. Immutable after construction, so that
/// the owners of one kind of device share it.
class PackedLinear {
 public:
  virtual ~PackedLinear() = default;
  [[nodiscard]] virtual int in_features() const = 0;
  [[nodiscard]] virtual int out_features() const = 0;
};

/// Weights of the 4x convolutional subsampling, packed. Immutable, shared like PackedLinear.
class PackedSubsampling {
 public:
  virtual ~PackedSubsampling() = default;
};

/// A filter bank's tables in the layout the backend's kernel reads. Immutable, shared like PackedLinear.
class PackedFbank {
 public:
  virtual ~PackedFbank() = default;
};

/// As the checkpoint stores them (host, f32).
struct SubsamplingWeights {
  TensorView conv1_weight;  ///< (D, 1, 3, 3)
  TensorView conv1_bias;    ///< (D)
  TensorView conv2_weight;  ///< (D, D, 3, 3)
  TensorView conv2_bias;    ///< (D)
  TensorView out_weight;    ///< (D, D*F2): input flattened channel-major, c*F2 + f
  TensorView out_bias;      ///< (D)
};

/// Weights of the middle of the convolution module (device).
struct ConvModuleWeights {
  TensorView depthwise_weight;  ///< (D, K)
  TensorView depthwise_bias;    ///< (D)
  /// Layer norm over D, or, when `folded`, a batch norm already folded into a per-channel scale and shift.
  TensorView norm_scale;  ///< (D)
  TensorView norm_shift;  ///< (D)
  bool folded_batch_norm = false;
};

/// y = residual + scale * activation(x W^T + b)
struct Epilogue {
  Activation activation = Activation::none;
  float scale = 1.0F;
  TensorView residual{};  ///< (rows, out) or empty; may be y itself
};

/// One layer's share of the paged K/V pool, as a kernel reads it. Lane i's history is the `cache_seqlens[i]`
/// frames that start at frame `cache_begin[i]` of its logical block 0; its new frames follow them. Logical
/// block b lies in physical block block_table[i * table_width + b].
struct PagedKv {
  TensorView k;                          ///< (blocks, block_size, n_kv_head, head_dim)
  TensorView v;                          ///< the same
  std::span<const int32_t> block_table;  ///< lanes x table_width
  int table_width = 0;
  std::span<const int32_t> cache_seqlens;  ///< lanes
  std::span<const int32_t> cache_begin;    ///< lanes
};

/// Attention with a position term indexed by the key's absolute frame:
///   score(i, j) = ((q_i + u) . k_j + (q_i + v) . p[pos(j)]) / sqrt(head_dim)
/// (WeNet's "rel_pos" without a shift; see its RelPositionMultiHeadedAttention).
struct AttentionInputs {
  TensorView qkv;         ///< (rows, 3*D): queries, keys, values of the new frames
  TensorView pos_bias_u;  ///< (D)
  TensorView pos_bias_v;  ///< (D)
  TensorView positions;   ///< (P, D): W_pos . pe, by position
  /// Position of each lane's first new frame; its cached frames are the positions just before. lanes entries.
  std::span<const int32_t> first_position;
};

/// Largest head_dim that the operations over a DecoderKv take: what their tiles are made for.
inline constexpr int max_decoder_head_dim = 256;

/// One layer's share of a decoder's keys and values, as a kernel reads and writes it. Lane i holds
/// `cache_seqlens[i]` tokens (or encoder frames), the first of them at the start of its logical page 0.
/// Logical page b lies in physical page block_table[i * table_width + b]. A dense cache is the case of one
/// page a row.
///
/// f8e4m3 stores a vector of head_dim values as codes and one scale, a power of two: value = code * scale.
struct DecoderKv {
  TensorView k;                          ///< (pages, page_tokens, n_kv_head, head_dim): f32, bf16 or f8e4m3
  TensorView v;                          ///< the same
  TensorView k_scales{};                 ///< (pages, page_tokens, n_kv_head) f32 beside f8e4m3, else empty
  TensorView v_scales{};                 ///< the same
  std::span<const int32_t> block_table;  ///< lanes x table_width
  int table_width = 0;
  std::span<const int32_t> cache_seqlens;  ///< lanes
};

/// Frames of features to compute for one stream.
struct FbankJob {
  const float* samples;  ///< (frames-1)*shift + length samples in [-1, 1), in host memory
  int frames;
  float* out;  ///< frames x num_mel_bins
};

/// A tensor to be read, and as many bytes of host memory for it.
struct Reading {
  TensorView from;
  std::byte* to;
};

/// Host memory to be copied to a tensor, as many bytes as that has.
struct Writing {
  const std::byte* from;
  TensorView to;
};

/// What an Ops has asked of its device so far.
struct DeviceUse {
  int64_t waits = 0;        ///< times that the host waited for the device
  int64_t allocations = 0;  ///< of device memory or pinned memory
  int64_t repeats = 0;      ///< of recorded work, as a whole
  int64_t eager = 0;        ///< passes of work to be repeated that was queued piece by piece
  double seconds = 0;       ///< from the beginning of a tick's first operation to the end of its last
};

/// The fused operations a streaming encoder is written against. An Ops belongs to one owner thread and holds
/// its scratch memory; what it packs may be read by every Ops of the same kind of device.
///
/// Row independence: every operation computes a row (or a lane) from that row's (lane's) own data with an
/// order of operations that does not depend on how many rows there are or where it stands among them.
/// Transcripts are bit-identical in any batch because of it.
///
/// No operation allocates once an Ops was `reserve`d for the sizes it is used with. Shapes are the caller's
/// duty (asserted, not reported): they come from the model, never from a client.
class Ops {
 public:
  virtual ~Ops() = default;

  /// "cpu (AVX2, oneDNN 2.6.3 + panel kernel)": for logs and `/metrics`.
  [[nodiscard]] virtual std::string_view description() const = 0;
  [[nodiscard]] virtual Tensor allocate(DType dtype, const Shape& shape) = 0;
  /// Copies a host f32 tensor to the device.
  [[nodiscard]] virtual Tensor upload(const TensorView& host) = 0;
  /// Copies tensors to host memory, all with one wait for what was queued before as far as there is memory to
  /// copy through.
  virtual void read(std::span<const Reading> readings) = 0;
  /// Copies host memory to tensors, in the order of operations. Host memory has been read, and the device is
  /// not waited for as far as there is memory to copy through, when it returns.
  virtual void write(std::span<const Writing> writings) = 0;
  /// An outbox for at most `bytes` at a time; null where reading does not hold up the device.
  [[nodiscard]] virtual std::unique_ptr<Outbox> make_outbox(int64_t /*bytes*/) { return nullptr; }
  /// A search with so many states; null where the host has what the operations leave, and searches itself.
  [[nodiscard]] virtual std::unique_ptr<CtcSearch> make_ctc_search(const CtcSearchSpec& /*spec*/,
                                                                   int /*states*/) {
    return nullptr;
  }
  /// Of what this computes.
  [[nodiscard]] virtual std::unique_ptr<Stopwatch> make_stopwatch() {
    return std::make_unique<HostStopwatch>();
  }
  /// Copies one f32 tensor to host memory.
  void download(const TensorView& device, std::span<float> host) {
    assert(host.size_bytes() == device.bytes());
    const Reading reading{device, reinterpret_cast<std::byte*>(host.data())};
    read({&reading, 1});
  }

  /// Prepares scratch for batches of at most `rows` packed encoder rows in `lanes` lanes, of `samples`
  /// samples in all.
  virtual void reserve(int lanes, int rows, int64_t samples) = 0;
  /// Whether operations are queued for a device that computes beside the calling thread.
  [[nodiscard]] virtual bool is_queued() const { return false; }
  /// All 0 where there is nothing to wait for.
  [[nodiscard]] virtual DeviceUse device_use() const { return {}; }

  /// `weight` (out, in) and `bias` (out, or empty) are host f32.
  [[nodiscard]] virtual std::shared_ptr<const PackedLinear> pack_linear(const TensorView& weight,
                                                                        const TensorView& bias) = 0;
  [[nodiscard]] virtual std::shared_ptr<const PackedSubsampling> pack_subsampling(
      const SubsamplingWeights& weights, int num_mel_bins) = 0;
  [[nodiscard]] virtual std::shared_ptr<const PackedFbank> pack_fbank(const FbankTables& tables) = 0;

  /// out (frames, mel) of every job. Kaldi's log-mel filter bank; see audio/fbank.hpp.
  virtual void fbank(const PackedFbank& tables, std::span<const FbankJob> jobs) = 0;

  /// means[i] = the mean of all values of the `group` rows of x (.., cols) from row rows[i] on.
  virtual void mean_of_rows(const TensorView& x, std::span<const int32_t> rows, int group,
                            const TensorView& means) = 0;

  /// Packs the lanes' feature windows and normalises them: out = (x - mean) * istd.
  /// `layout` counts feature rows; features[lane] is rows(lane) x mel, contiguous.
  virtual void cmvn(const BatchLayout& layout, std::span<const float* const> features, const TensorView& mean,
                    const TensorView& istd, const TensorView& out) = 0;

  /// Two 3x3 stride-2 convolutions with ReLU, flatten, linear, times `scale`.
  /// in: feature rows by `feature_layout`; out (rows, D) by `layout`, where a lane's rows are ((f-1)/2-1)/2.
  virtual void subsample(const PackedSubsampling& weights, const BatchLayout& feature_layout,
                         const TensorView& features, const BatchLayout& layout, float scale,
                         const TensorView& out) = 0;

  /// out (rows, D) = table[ids[row]] + positions[at[row]], with a row of `table` (V, D) a token and a row of
  /// `positions` (P, D) a place: what a decoder reads.
  virtual void embed_tokens(const TensorView& table, std::span<const int32_t> ids,
                            const TensorView& positions, std::span<const int32_t> at,
                            const TensorView& out) = 0;

  /// y (rows, out) from x (rows, in). y must not overlap x.
  virtual void linear(const PackedLinear& weights, const TensorView& x, const Epilogue& epilogue,
                      const TensorView& y) = 0;

  /// y = gamma * (x - mean) / sqrt(var + eps) + beta over the last axis. y may be x.
  virtual void layer_norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, float eps,
                          const TensorView& y) = 0;

  /// Writes the new frames' K and V behind each lane's history, then attends to history and new frames, every
  /// new frame to all of them. out (rows, D).
  virtual void paged_attention(const BatchLayout& layout, const PagedKv& kv, const AttentionInputs& in,
                               const TensorView& out) = 0;

  /// Puts each lane's cached left context before its rows: extended has lanes*(K-1) + rows rows, lane i's at
  /// row_begin[i] + i*(K-1). Then the last K-1 of them become the lane's cache.
  /// x (rows, D); cache (slots, K-1, D), written.
  virtual void extend_with_context(const BatchLayout& layout, const TensorView& x,
                                   std::span<const int32_t> slots, const TensorView& cache,
                                   const TensorView& extended) = 0;

  /// GLU over the extended rows (extended rows, 2D), causal depthwise convolution, norm, swish: out (rows,
  /// D).
  virtual void conv_module(const BatchLayout& layout, const TensorView& extended,
                           const ConvModuleWeights& weights, float eps, const TensorView& out) = 0;

  /// Copies one value of each row to host memory: values[row] = x[row][columns[row]].
  virtual void pick(const TensorView& x, std::span<const int32_t> columns, std::span<float> values) = 0;

  /// Log-softmax in place over (rows, V), and the k largest of each row, largest first, the smaller id first
  /// among equals: ids (rows, k) i32, values (rows, k).
  virtual void log_softmax_top_k(const TensorView& logits, int k, const TensorView& ids,
                                 const TensorView& values) = 0;

  // Entries of one axis of a tensor, by index: how caches that are addressed by slot or by block are read and
  // written. Any dtype; an index is in [0, tensor.shape[axis]).

  /// out = the entries `indices` of `axis`, in that order: tensor's shape with indices.size() on `axis`.
  virtual void index_select(const TensorView& tensor, int axis, std::span<const int32_t> indices,
                            const TensorView& out) = 0;
  /// Writes what index_select reads. Where an index comes twice, any of its entries may stay.
  virtual void index_copy(const TensorView& values, int axis, std::span<const int32_t> indices,
                          const TensorView& tensor) = 0;
  /// Sets every element of the entries `indices` to `value`, which other types than f32 and i32 take only as
  /// 0.
  virtual void index_fill(const TensorView& tensor, int axis, std::span<const int32_t> indices,
                          double value) = 0;

  /// Writes keys and values behind each lane's history, in the cache's format (f32, or rounded to the
  /// nearest, halves to even). Attends to nothing: what fills a cross-attention's cache. keys_values (rows, 2
  /// * n_kv_head * head_dim): keys, then values.
  virtual void append_decoder_kv(const BatchLayout& layout, const DecoderKv& kv,
                                 const TensorView& keys_values) = 0;

  /// Writes the new tokens' K and V behind each lane's history, then attends, every new token to the history,
  /// to itself and to the new tokens before it, with scores q . k / sqrt(head_dim). A lane without history
  /// attends to its new tokens as they are given, any other to what the cache holds of them: a prompt's own
  /// attention is not rounded. One token a lane is a step, several are a prefill.
  /// qkv (rows, (heads + 2 * n_kv_head) * head_dim): queries, keys, values; out (rows, heads * head_dim).
  /// heads is a multiple of n_kv_head, whose consecutive heads share keys and values.
  virtual void decoder_self_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& qkv,
                                      const TensorView& out) = 0;

  /// Attends, every row to all that its lane's cache holds, and writes nothing to it; zeros where it holds
  /// nothing. Rows that read the same cache, as the hypotheses of one utterance do, are one lane here.
  /// queries and out (rows, heads * head_dim).
  virtual void decoder_cross_attention(const BatchLayout& layout, const DecoderKv& kv,
                                       const TensorView& queries, const TensorView& out) = 0;

  /// Runs `operations`, which calls operations of this Ops on the same memory, and reads nothing back. Where
  /// `kind` names the same operations as before and only the arrays that say which rows, lanes and slots are
  /// meant have changed, a device may repeat them as a whole, at less cost to the host.
  virtual void repeat(int /*kind*/, const std::function<void()>& operations) { operations(); }
  /// Up to so many lanes a batch is worth being padded to a power of two, so that there are few kinds.
  [[nodiscard]] virtual int most_padded_lanes() const { return 0; }

  /// to = from: the same type and number of elements, without overlap.
  virtual void copy(const TensorView& from, const TensorView& to) = 0;
};

}  // namespace tutti
