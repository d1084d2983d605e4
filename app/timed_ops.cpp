#include "app/timed_ops.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tutti {

/// Times searches with the operations that they are queued behind.
class TimedOps::Search final : public CtcSearch {
 public:
  Search(TimedOps& timer, std::unique_ptr<CtcSearch> inner) : timer_(timer), inner_(std::move(inner)) {}

  void search(std::span<const CtcSearchLane> lanes, const TensorView& ids, const TensorView& log_probs,
              const TensorView& best_ids, const TensorView& best_log_probs) override {
    timer_.timed("search", least_work::search(lanes, ids.cols()),
                 [&] { inner_->search(lanes, ids, log_probs, best_ids, best_log_probs); });
  }
  std::span<const CtcToken> best(int state) const override { return inner_->best(state); }
  int64_t used_bytes(int state) const override { return inner_->used_bytes(state); }
  void gather(int state, std::byte* to) override { inner_->gather(state, to); }
  void read(int state, std::byte* to) override { inner_->read(state, to); }
  void write(int state, std::span<const std::byte> used, std::span<const CtcToken> best) override {
    inner_->write(state, used, best);
  }

 private:
  TimedOps& timer_;
  std::unique_ptr<CtcSearch> inner_;
};

void TimedOps::collect() {
  const std::span<const double> marks = stopwatch_->marks();
  if (!pending_.empty() && !marks.empty()) {
    for (size_t i = 0; i < pending_.size(); ++i) {
      Times& times = times_[pending_[i].index];
      ++times.calls;
      times.seconds += marks[2 * i + 1] - marks[2 * i];
      times.work.flops += pending_[i].work.flops;
      times.work.bytes += pending_[i].work.bytes;
    }
    seconds_ += marks.back();
    ++collected_;
  }
  pending_.clear();
}

void TimedOps::clear() {
  times_.clear();
  pending_.clear();
  collected_ = 0;
  seconds_ = 0;
}

size_t TimedOps::index_of(std::string_view name) {
  const auto found = std::ranges::find(times_, name, &Times::name);
  const auto index = static_cast<size_t>(found - times_.begin());
  if (found == times_.end())
    times_.push_back({.name = std::string(name), .calls = 0, .seconds = 0, .work = {}});
  return index;
}

std::unique_ptr<CtcSearch> TimedOps::make_ctc_search(const CtcSearchSpec& spec, int states) {
  auto search = ForwardingOps::make_ctc_search(spec, states);
  if (!search) return nullptr;
  return std::make_unique<Search>(*this, std::move(search));
}

void TimedOps::fbank(const PackedFbank& tables, std::span<const FbankJob> jobs) {
  timed("fbank", least_work::fbank(fbank_, jobs), [&] { ForwardingOps::fbank(tables, jobs); });
}

void TimedOps::cmvn(const BatchLayout& layout, std::span<const float* const> features, const TensorView& mean,
                    const TensorView& istd, const TensorView& out) {
  timed("cmvn", least_work::cmvn(out), [&] { ForwardingOps::cmvn(layout, features, mean, istd, out); });
}

void TimedOps::subsample(const PackedSubsampling& weights, const BatchLayout& feature_layout,
                         const TensorView& features, const BatchLayout& layout, float scale,
                         const TensorView& out) {
  timed("subsample", least_work::subsample(weights_, features, layout, out),
        [&] { ForwardingOps::subsample(weights, feature_layout, features, layout, scale, out); });
}

void TimedOps::embed_tokens(const TensorView& table, std::span<const int32_t> ids,
                            const TensorView& positions, std::span<const int32_t> at, const TensorView& out) {
  timed("embedding", least_work::embed_tokens(out),
        [&] { ForwardingOps::embed_tokens(table, ids, positions, at, out); });
}

void TimedOps::linear(const PackedLinear& weights, const TensorView& x, const Epilogue& epilogue,
                      const TensorView& y) {
  timed(fmt::format("linear {}x{}", weights.in_features(), weights.out_features()),
        least_work::linear(weights_, weights, x, epilogue),
        [&] { ForwardingOps::linear(weights, x, epilogue, y); });
}

void TimedOps::layer_norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, float eps,
                          const TensorView& y) {
  timed("layer norm", least_work::layer_norm(x), [&] { ForwardingOps::layer_norm(x, gamma, beta, eps, y); });
}

void TimedOps::paged_attention(const BatchLayout& layout, const PagedKv& kv, const AttentionInputs& in,
                               const TensorView& out) {
  timed("attention", least_work::paged_attention(layout, kv, out),
        [&] { ForwardingOps::paged_attention(layout, kv, in, out); });
}

void TimedOps::extend_with_context(const BatchLayout& layout, const TensorView& x,
                                   std::span<const int32_t> slots, const TensorView& cache,
                                   const TensorView& extended) {
  timed("conv context", least_work::extend_with_context(layout, x, cache),
        [&] { ForwardingOps::extend_with_context(layout, x, slots, cache, extended); });
}

void TimedOps::conv_module(const BatchLayout& layout, const TensorView& extended,
                           const ConvModuleWeights& weights, float eps, const TensorView& out) {
  timed("conv module", least_work::conv_module(extended, weights, out),
        [&] { ForwardingOps::conv_module(layout, extended, weights, eps, out); });
}

void TimedOps::log_softmax_top_k(const TensorView& logits, int k, const TensorView& ids,
                                 const TensorView& values) {
  timed("log-softmax", least_work::log_softmax_top_k(logits, k),
        [&] { ForwardingOps::log_softmax_top_k(logits, k, ids, values); });
}

void TimedOps::append_decoder_kv(const BatchLayout& layout, const DecoderKv& kv,
                                 const TensorView& keys_values) {
  timed("decoder K/V", least_work::append_decoder_kv(kv, keys_values),
        [&] { ForwardingOps::append_decoder_kv(layout, kv, keys_values); });
}

void TimedOps::decoder_self_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& qkv,
                                      const TensorView& out) {
  timed("decoder attention to tokens", least_work::decoder_self_attention(layout, kv, out),
        [&] { ForwardingOps::decoder_self_attention(layout, kv, qkv, out); });
}

void TimedOps::decoder_cross_attention(const BatchLayout& layout, const DecoderKv& kv,
                                       const TensorView& queries, const TensorView& out) {
  timed("decoder attention to frames", least_work::decoder_cross_attention(layout, kv, out),
        [&] { ForwardingOps::decoder_cross_attention(layout, kv, queries, out); });
}

}  // namespace tutti
