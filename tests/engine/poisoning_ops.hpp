#pragma once

#include <limits>
#include <span>

#include "gpu/forwarding_ops.hpp"

namespace tutti {

/// The operations of another Ops, but the embedding of any chunk whose audio starts with `trigger` is not a
/// number: what a stream looks like whose forward pass goes wrong. While `poison_copies` is on, neither is
/// what is copied: what frames kept for later look like when they are spoilt.
class PoisoningOps final : public ForwardingOps {
 public:
  static constexpr float trigger = 0.123456F;

  using ForwardingOps::ForwardingOps;

  void poison_copies(bool on) { poison_copies_ = on; }

  void fbank(const PackedFbank& tables, std::span<const FbankJob> jobs) override {
    poisoned_lane_ = -1;
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (jobs[i].samples[0] == trigger) poisoned_lane_ = static_cast<int>(i);
    }
    ForwardingOps::fbank(tables, jobs);
  }
  void subsample(const PackedSubsampling& weights, const BatchLayout& feature_layout,
                 const TensorView& features, const BatchLayout& layout, float scale,
                 const TensorView& out) override {
    ForwardingOps::subsample(weights, feature_layout, features, layout, scale, out);
    if (poisoned_lane_ < 0) return;
    out[layout.row_begin[static_cast<size_t>(poisoned_lane_)]].f32()[0] =
        std::numeric_limits<float>::quiet_NaN();
  }
  void copy(const TensorView& from, const TensorView& to) override {
    ForwardingOps::copy(from, to);
    if (poison_copies_) to.f32()[0] = std::numeric_limits<float>::quiet_NaN();
  }

 private:
  int poisoned_lane_ = -1;
  bool poison_copies_ = false;
};

}  // namespace tutti
