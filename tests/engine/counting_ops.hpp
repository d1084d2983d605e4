#pragma once

#include <cstdint>
#include <utility>

#include "gpu/forwarding_ops.hpp"

namespace tutti {

/// The operations of another Ops, which counts the multiplications of what grows with the audio: matrix
/// products, and the keys that attention looks at.
class CountingOps final : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;

  /// Since the last time.
  [[nodiscard]] int64_t take_count() { return std::exchange(count_, 0); }

  void linear(const PackedLinear& weights, const TensorView& x, const Epilogue& epilogue,
              const TensorView& y) override {
    count_ += x.rows() * weights.in_features() * weights.out_features();
    ForwardingOps::linear(weights, x, epilogue, y);
  }
  void paged_attention(const BatchLayout& layout, const PagedKv& kv, const AttentionInputs& in,
                       const TensorView& out) override {
    for (int lane = 0; lane < layout.lanes(); ++lane) {
      const auto at = static_cast<size_t>(lane);
      const int64_t keys = kv.cache_seqlens[at] - kv.cache_begin[at] + layout.rows(lane);
      count_ += layout.rows(lane) * keys * out.shape[1];
    }
    ForwardingOps::paged_attention(layout, kv, in, out);
  }

 private:
  int64_t count_ = 0;
};

}  // namespace tutti
