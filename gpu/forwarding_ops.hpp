#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "gpu/ops.hpp"

namespace tutti {

/// The operations of another Ops. A subclass overrides those it watches or changes.
class ForwardingOps : public Ops {
 public:
  explicit ForwardingOps(std::unique_ptr<Ops> inner) : inner_(std::move(inner)) {}

  std::string_view description() const override { return inner_->description(); }
  Tensor allocate(DType dtype, const Shape& shape) override { return inner_->allocate(dtype, shape); }
  Tensor upload(const TensorView& host) override { return inner_->upload(host); }
  void read(std::span<const Reading> readings) override { inner_->read(readings); }
  void write(std::span<const Writing> writings) override { inner_->write(writings); }
  std::unique_ptr<Outbox> make_outbox(int64_t bytes) override { return inner_->make_outbox(bytes); }
  std::unique_ptr<CtcSearch> make_ctc_search(const CtcSearchSpec& spec, int states) override {
    return inner_->make_ctc_search(spec, states);
  }
  std::unique_ptr<Stopwatch> make_stopwatch() override { return inner_->make_stopwatch(); }
  void reserve(int lanes, int rows, int64_t samples) override { inner_->reserve(lanes, rows, samples); }
  bool is_queued() const override { return inner_->is_queued(); }
  DeviceUse device_use() const override { return inner_->device_use(); }
  std::shared_ptr<const PackedLinear> pack_linear(const TensorView& weight, const TensorView& bias) override {
    return inner_->pack_linear(weight, bias);
  }
  std::shared_ptr<const PackedSubsampling> pack_subsampling(const SubsamplingWeights& weights,
                                                            int num_mel_bins) override {
    return inner_->pack_subsampling(weights, num_mel_bins);
  }
  std::shared_ptr<const PackedFbank> pack_fbank(const FbankTables& tables) override {
    return inner_->pack_fbank(tables);
  }
  void fbank(const PackedFbank& tables, std::span<const FbankJob> jobs) override {
    inner_->fbank(tables, jobs);
  }
  void mean_of_rows(const TensorView& x, std::span<const int32_t> rows, int group,
                    const TensorView& means) override {
    inner_->mean_of_rows(x, rows, group, means);
  }
  void cmvn(const BatchLayout& layout, std::span<const float* const> features, const TensorView& mean,
            const TensorView& istd, const TensorView& out) override {
    inner_->cmvn(layout, features, mean, istd, out);
  }
  void subsample(const PackedSubsampling& weights, const BatchLayout& feature_layout,
                 const TensorView& features, const BatchLayout& layout, float scale,
                 const TensorView& out) override {
    inner_->subsample(weights, feature_layout, features, layout, scale, out);
  }
  void embed_tokens(const TensorView& table, std::span<const int32_t> ids, const TensorView& positions,
                    std::span<const int32_t> at, const TensorView& out) override {
    inner_->embed_tokens(table, ids, positions, at, out);
  }
  void linear(const PackedLinear& weights, const TensorView& x, const Epilogue& epilogue,
              const TensorView& y) override {
    inner_->linear(weights, x, epilogue, y);
  }
  void layer_norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, float eps,
                  const TensorView& y) override {
    inner_->layer_norm(x, gamma, beta, eps, y);
  }
  void paged_attention(const BatchLayout& layout, const PagedKv& kv, const AttentionInputs& in,
                       const TensorView& out) override {
    inner_->paged_attention(layout, kv, in, out);
  }
  void extend_with_context(const BatchLayout& layout, const TensorView& x, std::span<const int32_t> slots,
                           const TensorView& cache, const TensorView& extended) override {
    inner_->extend_with_context(layout, x, slots, cache, extended);
  }
  void conv_module(const BatchLayout& layout, const TensorView& extended, const ConvModuleWeights& weights,
                   float eps, const TensorView& out) override {
    inner_->conv_module(layout, extended, weights, eps, out);
  }
  void pick(const TensorView& x, std::span<const int32_t> columns, std::span<float> values) override {
    inner_->pick(x, columns, values);
  }
  void log_softmax_top_k(const TensorView& logits, int k, const TensorView& ids,
                         const TensorView& values) override {
    inner_->log_softmax_top_k(logits, k, ids, values);
  }
  void index_select(const TensorView& tensor, int axis, std::span<const int32_t> indices,
                    const TensorView& out) override {
    inner_->index_select(tensor, axis, indices, out);
  }
  void index_copy(const TensorView& values, int axis, std::span<const int32_t> indices,
                  const TensorView& tensor) override {
    inner_->index_copy(values, axis, indices, tensor);
  }
  void index_fill(const TensorView& tensor, int axis, std::span<const int32_t> indices,
                  double value) override {
    inner_->index_fill(tensor, axis, indices, value);
  }
  void append_decoder_kv(const BatchLayout& layout, const DecoderKv& kv,
                         const TensorView& keys_values) override {
    inner_->append_decoder_kv(layout, kv, keys_values);
  }
  void decoder_self_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& qkv,
                              const TensorView& out) override {
    inner_->decoder_self_attention(layout, kv, qkv, out);
  }
  void decoder_cross_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& queries,
                               const TensorView& out) override {
    inner_->decoder_cross_attention(layout, kv, queries, out);
  }
  void repeat(int kind, const std::function<void()>& operations) override {
    inner_->repeat(kind, operations);
  }
  int most_padded_lanes() const override { return inner_->most_padded_lanes(); }
  void copy(const TensorView& from, const TensorView& to) override { inner_->copy(from, to); }

 private:
  std::unique_ptr<Ops> inner_;
};

}  // namespace tutti
