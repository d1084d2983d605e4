#pragma once

#include <limits>
#include <memory>
#include <span>

#include "gpu/ops.hpp"

namespace tutti {

/// The operations of another Ops, but the embedding of any chunk whose audio starts with `trigger` is not a
/// number: what a stream looks like whose forward pass goes wrong.
class PoisoningOps final : public Ops {
 public:
  static constexpr float trigger = 0.123456F;

  explicit PoisoningOps(std::unique_ptr<Ops> inner) : inner_(std::move(inner)) {}

  void fbank(const FbankTables& tables, std::span<const FbankJob> jobs) override {
    poisoned_lane_ = -1;
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (jobs[i].samples[0] == trigger) poisoned_lane_ = static_cast<int>(i);
    }
    inner_->fbank(tables, jobs);
  }
  void subsample(const PackedSubsampling& weights, const BatchLayout& feature_layout,
                 const TensorView& features, const BatchLayout& layout, float scale,
                 const TensorView& out) override {
    inner_->subsample(weights, feature_layout, features, layout, scale, out);
    if (poisoned_lane_ < 0) return;
    out[layout.row_begin[static_cast<size_t>(poisoned_lane_)]].f32()[0] =
        std::numeric_limits<float>::quiet_NaN();
  }

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
  void cmvn(const BatchLayout& layout, std::span<const float* const> features, const TensorView& mean,
            const TensorView& istd, const TensorView& out) override {
    inner_->cmvn(layout, features, mean, istd, out);
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
  void log_softmax_top_k(const TensorView& logits, int k, const TensorView& ids,
                         const TensorView& values) override {
    inner_->log_softmax_top_k(logits, k, ids, values);
  }

 private:
  std::unique_ptr<Ops> inner_;
  int poisoned_lane_ = -1;
};

}  // namespace tutti
