#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "gpu/forwarding_ops.hpp"

namespace tutti {

/// The operations of another Ops, and how long each kind has taken. Each is waited for, where the device goes
/// on by itself: they no longer overlap with the host.
class TimedOps final : public ForwardingOps {
 public:
  enum Kind : uint8_t {
    fbank_kind,
    cmvn_kind,
    subsample_kind,
    embedding_kind,
    linear_kind,
    layer_norm_kind,
    attention_kind,
    context_kind,
    conv_module_kind,
    log_softmax_kind,
    decoder_attention_kind,
    kinds,
  };
  static constexpr std::array<std::string_view, kinds> names{
      "fbank",     "cmvn",         "subsample",   "embedding",   "linear",           "layer norm",
      "attention", "conv context", "conv module", "log-softmax", "decoder attention"};
  using Seconds = std::array<double, kinds>;

  /// Adds to `seconds`, which outlives this.
  TimedOps(std::unique_ptr<Ops> inner, Seconds& seconds)
      : ForwardingOps(std::move(inner)),
        seconds_(seconds),
        awaited_(ForwardingOps::allocate(DType::f32, {1})) {}

  void fbank(const PackedFbank& tables, std::span<const FbankJob> jobs) override {
    timed(fbank_kind, [&] { ForwardingOps::fbank(tables, jobs); });
  }
  // Work that is only recorded cannot be waited for.
  void repeat(int /*kind*/, const std::function<void()>& operations) override { operations(); }
  void cmvn(const BatchLayout& layout, std::span<const float* const> features, const TensorView& mean,
            const TensorView& istd, const TensorView& out) override {
    timed(cmvn_kind, [&] { ForwardingOps::cmvn(layout, features, mean, istd, out); });
  }
  void subsample(const PackedSubsampling& weights, const BatchLayout& feature_layout,
                 const TensorView& features, const BatchLayout& layout, float scale,
                 const TensorView& out) override {
    timed(subsample_kind,
          [&] { ForwardingOps::subsample(weights, feature_layout, features, layout, scale, out); });
  }
  void embed_tokens(const TensorView& table, std::span<const int32_t> ids, const TensorView& positions,
                    std::span<const int32_t> at, const TensorView& out) override {
    timed(embedding_kind, [&] { ForwardingOps::embed_tokens(table, ids, positions, at, out); });
  }
  void linear(const PackedLinear& weights, const TensorView& x, const Epilogue& epilogue,
              const TensorView& y) override {
    timed(linear_kind, [&] { ForwardingOps::linear(weights, x, epilogue, y); });
  }
  void layer_norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, float eps,
                  const TensorView& y) override {
    timed(layer_norm_kind, [&] { ForwardingOps::layer_norm(x, gamma, beta, eps, y); });
  }
  void paged_attention(const BatchLayout& layout, const PagedKv& kv, const AttentionInputs& in,
                       const TensorView& out) override {
    timed(attention_kind, [&] { ForwardingOps::paged_attention(layout, kv, in, out); });
  }
  void extend_with_context(const BatchLayout& layout, const TensorView& x, std::span<const int32_t> slots,
                           const TensorView& cache, const TensorView& extended) override {
    timed(context_kind, [&] { ForwardingOps::extend_with_context(layout, x, slots, cache, extended); });
  }
  void conv_module(const BatchLayout& layout, const TensorView& extended, const ConvModuleWeights& weights,
                   float eps, const TensorView& out) override {
    timed(conv_module_kind, [&] { ForwardingOps::conv_module(layout, extended, weights, eps, out); });
  }
  void pick(const TensorView& x, std::span<const int32_t> columns, std::span<float> values) override {
    timed(log_softmax_kind, [&] { ForwardingOps::pick(x, columns, values); });
  }
  void log_softmax_top_k(const TensorView& logits, int k, const TensorView& ids,
                         const TensorView& values) override {
    timed(log_softmax_kind, [&] { ForwardingOps::log_softmax_top_k(logits, k, ids, values); });
  }
  void append_decoder_kv(const BatchLayout& layout, const DecoderKv& kv,
                         const TensorView& keys_values) override {
    timed(decoder_attention_kind, [&] { ForwardingOps::append_decoder_kv(layout, kv, keys_values); });
  }
  void decoder_self_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& qkv,
                              const TensorView& out) override {
    timed(decoder_attention_kind, [&] { ForwardingOps::decoder_self_attention(layout, kv, qkv, out); });
  }
  void decoder_cross_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& queries,
                               const TensorView& out) override {
    timed(decoder_attention_kind, [&] { ForwardingOps::decoder_cross_attention(layout, kv, queries, out); });
  }

 private:
  template <class Operation>
  void timed(Kind kind, Operation operation) {
    const auto start = std::chrono::steady_clock::now();
    operation();
    float value = 0;
    ForwardingOps::download(awaited_, {&value, 1});
    seconds_[kind] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Seconds& seconds_;
  Tensor awaited_;
};

}  // namespace tutti
