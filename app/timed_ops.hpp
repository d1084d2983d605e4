#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

#include "gpu/ops.hpp"

namespace tutti {

/// The operations of another Ops, and how long each kind has taken.
class TimedOps final : public Ops {
 public:
  enum Kind : uint8_t {
    fbank_kind,
    cmvn_kind,
    subsample_kind,
    linear_kind,
    layer_norm_kind,
    attention_kind,
    context_kind,
    conv_module_kind,
    log_softmax_kind,
    kinds,
  };
  static constexpr std::array<std::string_view, kinds> names{"fbank",        "cmvn",        "subsample",
                                                             "linear",       "layer norm",  "attention",
                                                             "conv context", "conv module", "log-softmax"};
  using Seconds = std::array<double, kinds>;

  /// Adds to `seconds`, which outlives this.
  TimedOps(std::unique_ptr<Ops> inner, Seconds& seconds) : inner_(std::move(inner)), seconds_(seconds) {}

  std::string_view description() const override { return inner_->description(); }
  Tensor allocate(DType dtype, const Shape& shape) override { return inner_->allocate(dtype, shape); }
  Tensor upload(const TensorView& host) override { return inner_->upload(host); }
  void download(const TensorView& device, std::span<float> host) override { inner_->download(device, host); }
  void reserve(int lanes, int rows) override { inner_->reserve(lanes, rows); }
  std::shared_ptr<const PackedLinear> pack_linear(const TensorView& weight, const TensorView& bias) override {
    return inner_->pack_linear(weight, bias);
  }
  std::shared_ptr<const PackedSubsampling> pack_subsampling(const SubsamplingWeights& weights,
                                                            int num_mel_bins) override {
    return inner_->pack_subsampling(weights, num_mel_bins);
  }
  void fbank(const FbankTables& tables, std::span<const FbankJob> jobs) override {
    timed(fbank_kind, [&] { inner_->fbank(tables, jobs); });
  }
  void cmvn(const BatchLayout& layout, std::span<const float* const> features, const TensorView& mean,
            const TensorView& istd, const TensorView& out) override {
    timed(cmvn_kind, [&] { inner_->cmvn(layout, features, mean, istd, out); });
  }
  void subsample(const PackedSubsampling& weights, const BatchLayout& feature_layout,
                 const TensorView& features, const BatchLayout& layout, float scale,
                 const TensorView& out) override {
    timed(subsample_kind, [&] { inner_->subsample(weights, feature_layout, features, layout, scale, out); });
  }
  void linear(const PackedLinear& weights, const TensorView& x, const Epilogue& epilogue,
              const TensorView& y) override {
    timed(linear_kind, [&] { inner_->linear(weights, x, epilogue, y); });
  }
  void layer_norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, float eps,
                  const TensorView& y) override {
    timed(layer_norm_kind, [&] { inner_->layer_norm(x, gamma, beta, eps, y); });
  }
  void paged_attention(const BatchLayout& layout, const PagedKv& kv, const AttentionInputs& in,
                       const TensorView& out) override {
    timed(attention_kind, [&] { inner_->paged_attention(layout, kv, in, out); });
  }
  void extend_with_context(const BatchLayout& layout, const TensorView& x, std::span<const int32_t> slots,
                           const TensorView& cache, const TensorView& extended) override {
    timed(context_kind, [&] { inner_->extend_with_context(layout, x, slots, cache, extended); });
  }
  void conv_module(const BatchLayout& layout, const TensorView& extended, const ConvModuleWeights& weights,
                   float eps, const TensorView& out) override {
    timed(conv_module_kind, [&] { inner_->conv_module(layout, extended, weights, eps, out); });
  }
  void log_softmax_top_k(const TensorView& logits, int k, const TensorView& ids,
                         const TensorView& values) override {
    timed(log_softmax_kind, [&] { inner_->log_softmax_top_k(logits, k, ids, values); });
  }

 private:
  template <class Operation>
  void timed(Kind kind, Operation operation) {
    const auto start = std::chrono::steady_clock::now();
    operation();
    seconds_[kind] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  std::unique_ptr<Ops> inner_;
  Seconds& seconds_;
};

}  // namespace tutti
