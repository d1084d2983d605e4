#include "gpu/cuda/cuda_ops.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <string>
#include <vector>

#include "gpu/cuda/packed.hpp"
#include "gpu/cuda/staging.hpp"

namespace tutti {
namespace {

/// Enough for the index arrays of a tick of any usual size.
constexpr size_t staging_bytes = size_t{4} << 20;
/// Of a download, what is copied between two waits.
constexpr size_t download_piece = size_t{1} << 20;

[[noreturn]] void not_offered(const char* operation) {
  throw std::logic_error(fmt::format("the CUDA backend does not compute {}", operation));
}

cuda::IndexedAxis indexed(const TensorView& tensor, int axis) {
  cuda::IndexedAxis view{1, tensor.shape[axis], 1, static_cast<int32_t>(size_of(tensor.dtype))};
  for (int i = 0; i < axis; ++i) view.outer *= tensor.shape[i];
  for (int i = axis + 1; i < tensor.shape.rank(); ++i) view.inner *= tensor.shape[i];
  return view;
}

class CudaOps final : public Ops {
 public:
  CudaOps(const cuda::PluginApi& api, int device)
      : api_(api),
        device_(device),
        staging_(api, device, staging_bytes),
        description_(fmt::format("cuda:{} (fp32)", device)) {}

  [[nodiscard]] std::string_view description() const override { return description_; }

  [[nodiscard]] Tensor allocate(DType dtype, const Shape& shape) override {
    std::byte* memory = nullptr;
    const size_t bytes = static_cast<size_t>(shape.elements()) * size_of(dtype);
    check(api_.allocate(device_, bytes, &memory), "allocate memory");
    return {memory, api_.release, dtype, shape};
  }

  [[nodiscard]] Tensor upload(const TensorView& host) override {
    Tensor tensor = allocate(host.dtype, host.shape);
    staging_.copy(tensor.view().data, host.data, host.bytes());
    staging_.wait();
    return tensor;
  }

  void download(const TensorView& device, std::span<float> host) override {
    assert(static_cast<int64_t>(host.size()) == device.shape.elements());
    auto* to = reinterpret_cast<std::byte*>(host.data());
    for (size_t done = 0; done < device.bytes(); done += download_piece) {
      const size_t bytes = std::min(download_piece, device.bytes() - done);
      std::byte* const here = staging_.place(bytes).host;
      staging_.copy(here, device.data + done, bytes);
      staging_.wait();
      std::copy_n(here, bytes, to + done);
    }
  }

  void reserve(int lanes, int rows) override {
    tiles_.reserve(static_cast<size_t>(lanes + rows / cuda::conv_tile_rows));
    feature_row_.reserve(static_cast<size_t>(lanes + 2 * rows));
    for (std::vector<int32_t>* of_rows : {&frame_begin_, &row_lane_, &row_frame_}) {
      of_rows->reserve(static_cast<size_t>(rows));
    }
    lanes_.reserve(static_cast<size_t>(lanes));
  }

  [[nodiscard]] std::shared_ptr<const PackedLinear> pack_linear(const TensorView& weight,
                                                                const TensorView& bias) override {
    return std::make_shared<cuda::CudaLinear>(*this, weight, bias);
  }

  [[nodiscard]] std::shared_ptr<const PackedSubsampling> pack_subsampling(const SubsamplingWeights& weights,
                                                                          int num_mel_bins) override {
    return std::make_shared<cuda::CudaSubsampling>(*this, weights, num_mel_bins);
  }

  void fbank(const FbankTables& /*tables*/, std::span<const FbankJob> /*jobs*/) override {
    not_offered("fbank");
  }

  void cmvn(const BatchLayout& layout, std::span<const float* const> features, const TensorView& mean,
            const TensorView& istd, const TensorView& out) override {
    const auto [lanes, row_begin] = staging_.stage(features, layout.row_begin);
    check(api_.kernels.cmvn(queue(), lanes, row_begin, layout.lanes(), layout.rows(), out.cols(), mean.f32(),
                            istd.f32(), out.f32()),
          "normalise features");
  }

  void subsample(const PackedSubsampling& weights, const BatchLayout& feature_layout,
                 const TensorView& features, const BatchLayout& layout, float scale,
                 const TensorView& out) override {
    const auto& w = static_cast<const cuda::CudaSubsampling&>(weights);
    fill_frames(feature_layout, layout);
    const auto frames = static_cast<int64_t>(feature_row_.size());
    float* const conv1 = floats(conv1_, frames * w.frame());
    float* const conv2 = floats(conv2_, layout.rows() * w.flat());
    const auto [feature_row, frame_begin] =
        staging_.stage(std::span<const int32_t>(feature_row_), std::span<const int32_t>(frame_begin_));
    check(api_.kernels.first_convolution(queue(), w.conv1(features.f32(), feature_row, frames, conv1)),
          "subsample");
    check(api_.kernels.gemm(queue(), w.conv2(conv1, frame_begin, layout.rows(), conv2)), "subsample");
    check(api_.kernels.gemm(queue(), w.out(conv2, layout.rows(), scale, out.f32())), "subsample");
  }

  void embed_tokens(const TensorView& table, std::span<const int32_t> ids, const TensorView& positions,
                    std::span<const int32_t> at, const TensorView& out) override {
    assert(static_cast<int64_t>(ids.size()) == out.rows() && ids.size() == at.size());
    const auto [tokens, places] = staging_.stage(ids, at);
    check(api_.kernels.embed_tokens(queue(), table.f32(), tokens, positions.f32(), places, out.rows(),
                                    out.cols(), out.f32()),
          "embed tokens");
  }

  void linear(const PackedLinear& weights, const TensorView& x, const Epilogue& epilogue,
              const TensorView& y) override {
    const auto& w = static_cast<const cuda::CudaLinear&>(weights);
    check(api_.kernels.gemm(queue(), w.call(cuda::matrix(x.f32(), x.cols()), x.rows(), epilogue, y.f32())),
          "multiply matrices");
  }

  void layer_norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, float eps,
                  const TensorView& y) override {
    const int64_t cols = gamma.shape.elements();
    check(api_.kernels.layer_norm(queue(), x.f32(), x.shape.elements() / cols, cols, gamma.f32(), beta.f32(),
                                  eps, y.f32()),
          "normalise rows");
  }

  void paged_attention(const BatchLayout& layout, const PagedKv& kv, const AttentionInputs& in,
                       const TensorView& out) override {
    fill_attention(layout, kv, in);
    const auto [row_lane, row_frame, lanes, block_table] =
        staging_.stage(std::span<const int32_t>(row_lane_), std::span<const int32_t>(row_frame_),
                       std::span<const cuda::AttentionLane>(lanes_), kv.block_table);
    const cuda::AttentionCall call{.qkv = in.qkv.f32(),
                                   .bias_u = in.pos_bias_u.f32(),
                                   .bias_v = in.pos_bias_v.f32(),
                                   .positions = in.positions.f32(),
                                   .k = kv.k.f32(),
                                   .v = kv.v.f32(),
                                   .out = out.f32(),
                                   .row_lane = row_lane,
                                   .row_frame = row_frame,
                                   .lanes = lanes,
                                   .block_table = block_table,
                                   .rows = layout.rows(),
                                   .heads = static_cast<int32_t>(kv.k.shape[2]),
                                   .head_dim = static_cast<int32_t>(kv.k.shape[3]),
                                   .block_size = static_cast<int32_t>(kv.k.shape[1])};
    assert(call.head_dim <= cuda::max_attention_head_dim);
    check(api_.kernels.paged_attention(queue(), call), "attend");
  }

  void extend_with_context(const BatchLayout& layout, const TensorView& x, std::span<const int32_t> slots,
                           const TensorView& cache, const TensorView& extended) override {
    assert(static_cast<int>(slots.size()) == layout.lanes() && cache.shape[2] == x.cols());
    const auto [row_begin, lane_slots] = staging_.stage(layout.row_begin, slots);
    check(api_.kernels.extend_with_context(queue(), x.f32(), row_begin, lane_slots, layout.lanes(),
                                           static_cast<int>(cache.shape[1]), x.cols(), cache.f32(),
                                           extended.f32()),
          "extend rows with their context");
  }

  void conv_module(const BatchLayout& layout, const TensorView& extended, const ConvModuleWeights& weights,
                   float eps, const TensorView& out) override {
    const auto taps = static_cast<int32_t>(weights.depthwise_weight.cols());
    fill_tiles(layout, taps);
    const auto [tiles] = staging_.stage(std::span<const cuda::ConvTile>(tiles_));
    const cuda::ConvModuleCall call{.tiles = tiles,
                                    .extended = extended.f32(),
                                    .weight = weights.depthwise_weight.f32(),
                                    .bias = weights.depthwise_bias.f32(),
                                    .norm_scale = weights.norm_scale.f32(),
                                    .norm_shift = weights.norm_shift.f32(),
                                    .out = out.f32(),
                                    .channels = out.cols(),
                                    .taps = taps,
                                    .folded = weights.folded_batch_norm ? 1 : 0,
                                    .eps = eps};
    check(api_.kernels.conv_module(queue(), call, static_cast<int>(tiles_.size())), "convolve");
  }

  void pick(const TensorView& x, std::span<const int32_t> columns, std::span<float> values) override {
    assert(static_cast<int64_t>(columns.size()) == x.rows() && columns.size() == values.size());
    if (values.empty()) return;
    // The columns, and behind them the values, in one place: a second one may take the first's.
    const cuda::Staging::Place at = staging_.place(2 * columns.size_bytes());
    std::copy_n(columns.data(), columns.size(), reinterpret_cast<int32_t*>(at.host));
    staging_.copy(at.device, at.host, columns.size_bytes());
    auto* const picked = reinterpret_cast<float*>(at.device + columns.size_bytes());
    check(api_.kernels.pick(queue(), x.f32(), reinterpret_cast<const int32_t*>(at.device), x.rows(), x.cols(),
                            picked),
          "pick values");
    staging_.copy(at.host, picked, values.size_bytes());
    staging_.wait();
    std::copy_n(reinterpret_cast<const float*>(at.host), values.size(), values.data());
  }

  void log_softmax_top_k(const TensorView& logits, int k, const TensorView& ids,
                         const TensorView& values) override {
    assert(k >= 1 && k <= logits.cols() && ids.cols() == k && values.cols() == k);
    check(api_.kernels.log_softmax_top_k(queue(), logits.f32(), logits.rows(),
                                         static_cast<int>(logits.cols()), k, ids.i32(), values.f32()),
          "take the softmax");
  }

  void index_select(const TensorView& tensor, int axis, std::span<const int32_t> indices,
                    const TensorView& out) override {
    assert(out.dtype == tensor.dtype && out.shape[axis] == static_cast<int64_t>(indices.size()));
    const auto [entries] = staging_.stage(indices);
    check(api_.kernels.index_select(queue(), indexed(tensor, axis), tensor.data, entries,
                                    static_cast<int>(indices.size()), out.data),
          "select entries");
  }

  void index_copy(const TensorView& values, int axis, std::span<const int32_t> indices,
                  const TensorView& tensor) override {
    assert(values.dtype == tensor.dtype && values.shape[axis] == static_cast<int64_t>(indices.size()));
    const auto [entries] = staging_.stage(indices);
    check(api_.kernels.index_copy(queue(), indexed(tensor, axis), values.data, entries,
                                  static_cast<int>(indices.size()), tensor.data),
          "copy entries");
  }

  void index_fill(const TensorView& tensor, int axis, std::span<const int32_t> indices,
                  double value) override {
    assert(value == 0 || tensor.dtype == DType::f32 || tensor.dtype == DType::i32);
    const auto [entries] = staging_.stage(indices);
    const uint32_t bits = tensor.dtype == DType::f32 ? std::bit_cast<uint32_t>(static_cast<float>(value))
                                                     : static_cast<uint32_t>(static_cast<int32_t>(value));
    check(api_.kernels.index_fill(queue(), indexed(tensor, axis), entries, static_cast<int>(indices.size()),
                                  bits, tensor.data),
          "fill entries");
  }

  void append_decoder_kv(const BatchLayout& /*layout*/, const DecoderKv& /*kv*/,
                         const TensorView& /*keys_values*/) override {
    not_offered("append_decoder_kv");
  }

  void decoder_self_attention(const BatchLayout& /*layout*/, const DecoderKv& /*kv*/,
                              const TensorView& /*qkv*/, const TensorView& /*out*/) override {
    not_offered("decoder_self_attention");
  }

  void decoder_cross_attention(const BatchLayout& /*layout*/, const DecoderKv& /*kv*/,
                               const TensorView& /*queries*/, const TensorView& /*out*/) override {
    not_offered("decoder_cross_attention");
  }

  void copy(const TensorView& from, const TensorView& to) override {
    assert(from.dtype == to.dtype && from.shape.elements() == to.shape.elements());
    staging_.copy(to.data, from.data, from.bytes());
  }

 private:
  void check(int error, const char* what) const { cuda::check(api_, error, what); }
  [[nodiscard]] cuda::Queue* queue() const { return staging_.queue(); }

  void fill_tiles(const BatchLayout& layout, int32_t taps) {
    tiles_.clear();
    for (int lane = 0; lane < layout.lanes(); ++lane) {
      const int32_t context = lane * (taps - 1);
      for (int32_t row = layout.row_begin[lane]; row < layout.row_begin[lane + 1];
           row += cuda::conv_tile_rows) {
        tiles_.push_back(
            {row + context, row, std::min(cuda::conv_tile_rows, layout.row_begin[lane + 1] - row)});
      }
    }
  }

  /// Where each frame after the first convolution has its features, and each row its frames: a lane has two
  /// frames a row, and one more.
  void fill_frames(const BatchLayout& feature_layout, const BatchLayout& layout) {
    feature_row_.clear();
    frame_begin_.clear();
    for (int lane = 0; lane < layout.lanes(); ++lane) {
      if (layout.rows(lane) == 0) continue;
      const auto first = static_cast<int32_t>(feature_row_.size());
      for (int row = 0; row < layout.rows(lane); ++row) frame_begin_.push_back(first + 2 * row);
      for (int frame = 0; frame <= 2 * layout.rows(lane); ++frame) {
        feature_row_.push_back(feature_layout.row_begin[static_cast<size_t>(lane)] + 2 * frame);
      }
    }
  }

  /// Each row's lane and its new frame's place in the pool, and what the lane attends to.
  void fill_attention(const BatchLayout& layout, const PagedKv& kv, const AttentionInputs& in) {
    const auto block_size = static_cast<int32_t>(kv.k.shape[1]);
    row_lane_.clear();
    row_frame_.clear();
    lanes_.clear();
    for (int lane = 0; lane < layout.lanes(); ++lane) {
      const auto i = static_cast<size_t>(lane);
      const int32_t table = lane * kv.table_width;
      lanes_.push_back({kv.cache_seqlens[i] + layout.rows(lane), kv.cache_begin[i],
                        in.first_position[i] - kv.cache_seqlens[i], table});
      int32_t logical = kv.cache_begin[i] + kv.cache_seqlens[i];
      for (int row = 0; row < layout.rows(lane); ++row, ++logical) {
        const int32_t block = kv.block_table[static_cast<size_t>(table + logical / block_size)];
        row_lane_.push_back(lane);
        row_frame_.push_back(block * block_size + logical % block_size);
      }
    }
  }

  /// At least `count` floats of scratch that stay in `tensor`, which grows for the largest batch.
  float* floats(Tensor& tensor, int64_t count) {
    if (tensor.shape().elements() < count || tensor.view().data == nullptr) {
      staging_.wait();  // for what still uses the smaller one
      tensor = allocate(DType::f32, {count});
    }
    return tensor.view().f32();
  }

  const cuda::PluginApi& api_;
  int device_;
  cuda::Staging staging_;
  std::string description_;
  std::vector<cuda::ConvTile> tiles_;
  std::vector<int32_t> feature_row_;
  std::vector<int32_t> frame_begin_;
  std::vector<int32_t> row_lane_;
  std::vector<int32_t> row_frame_;
  std::vector<cuda::AttentionLane> lanes_;
  Tensor conv1_, conv2_;  ///< scratch of the subsampling
};

}  // namespace

std::unique_ptr<Ops> make_cuda_ops(const cuda::PluginApi& api, int device) {
  return std::make_unique<CudaOps>(api, device);
}

}  // namespace tutti
