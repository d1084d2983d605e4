#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/least_work.hpp"
#include "gpu/forwarding_ops.hpp"

namespace tutti {

/// The operations of another Ops, and how long each kind takes where it is computed, by the Ops' stopwatch;
/// matrix products by their shape. What is to be repeated as a whole is done piece by piece.
class TimedOps final : public ForwardingOps {
 public:
  /// Operations of one kind.
  struct Times {
    std::string name;
    int64_t calls = 0;
    double seconds = 0;
    LeastWork work;
  };

  TimedOps(std::unique_ptr<Ops> inner, const FbankOptions& fbank, WeightType weights)
      : ForwardingOps(std::move(inner)),
        fbank_(fbank),
        weights_(weights),
        stopwatch_(ForwardingOps::make_stopwatch()) {}

  /// Takes down the operations since the last time, which somebody has waited for. Those that could not be
  /// timed (Stopwatch::marks) are forgotten.
  void collect();
  /// Forgets all that was taken down.
  void clear();

  /// In the order in which they first came.
  [[nodiscard]] const std::vector<Times>& times() const { return times_; }
  /// Times that there was something to take down.
  [[nodiscard]] int64_t collected() const { return collected_; }
  /// From the first operation's beginning to the last one's end, each time.
  [[nodiscard]] double seconds() const { return seconds_; }

  // Work that is recorded has no time.
  void repeat(int /*kind*/, const std::function<void()>& operations) override { operations(); }

  std::unique_ptr<CtcSearch> make_ctc_search(const CtcSearchSpec& spec, int states) override;
  void fbank(const PackedFbank& tables, std::span<const FbankJob> jobs) override;
  void cmvn(const BatchLayout& layout, std::span<const float* const> features, const TensorView& mean,
            const TensorView& istd, const TensorView& out) override;
  void subsample(const PackedSubsampling& weights, const BatchLayout& feature_layout,
                 const TensorView& features, const BatchLayout& layout, float scale,
                 const TensorView& out) override;
  void embed_tokens(const TensorView& table, std::span<const int32_t> ids, const TensorView& positions,
                    std::span<const int32_t> at, const TensorView& out) override;
  void linear(const PackedLinear& weights, const TensorView& x, const Epilogue& epilogue,
              const TensorView& y) override;
  void layer_norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, float eps,
                  const TensorView& y) override;
  void paged_attention(const BatchLayout& layout, const PagedKv& kv, const AttentionInputs& in,
                       const TensorView& out) override;
  void extend_with_context(const BatchLayout& layout, const TensorView& x, std::span<const int32_t> slots,
                           const TensorView& cache, const TensorView& extended) override;
  void conv_module(const BatchLayout& layout, const TensorView& extended, const ConvModuleWeights& weights,
                   float eps, const TensorView& out) override;
  void log_softmax_top_k(const TensorView& logits, int k, const TensorView& ids,
                         const TensorView& values) override;
  void append_decoder_kv(const BatchLayout& layout, const DecoderKv& kv,
                         const TensorView& keys_values) override;
  void decoder_self_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& qkv,
                              const TensorView& out) override;
  void decoder_cross_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& queries,
                               const TensorView& out) override;

 private:
  class Search;

  template <class Operation>
  void timed(std::string_view name, const LeastWork& work, Operation operation) {
    if (pending_.empty()) stopwatch_->start();
    stopwatch_->mark();
    operation();
    stopwatch_->mark();
    pending_.push_back({index_of(name), work});
  }
  [[nodiscard]] size_t index_of(std::string_view name);

  /// An operation between two marks.
  struct Pending {
    size_t index;
    LeastWork work;
  };

  FbankOptions fbank_;
  WeightType weights_;
  std::unique_ptr<Stopwatch> stopwatch_;
  std::vector<Pending> pending_;
  std::vector<Times> times_;
  int64_t collected_ = 0;
  double seconds_ = 0;
};

}  // namespace tutti
