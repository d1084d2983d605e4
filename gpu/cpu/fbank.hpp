#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/ops.hpp"

namespace tutti::cpu {

/// What the filter bank's FFT needs for one FFT size: roots of unity, the order in which its result lies, and
/// working memory. Belongs to one thread; construction is the only part that allocates.
class FbankPlan {
 public:
  FbankPlan() = default;
  explicit FbankPlan(const FbankTables& tables);
  /// True when the plan was made for tables of this FFT size.
  [[nodiscard]] bool fits(const FbankTables& tables) const;

  /// Half the FFT size: a real transform is a complex one of half the length.
  [[nodiscard]] int points() const { return points_; }
  /// cos and sin of -2 pi k / (2 points), k < 2 points, interleaved.
  [[nodiscard]] const float* roots() const { return roots_.data(); }
  /// Where the in-place transform leaves frequency k, k < points.
  [[nodiscard]] const int32_t* order() const { return order_.data(); }
  [[nodiscard]] float* scratch() { return scratch_.data(); }

 private:
  int points_ = 0;
  std::vector<float> roots_;
  std::vector<int32_t> order_;
  std::vector<float> scratch_;
};

/// Ops::fbank. One vector lane computes one frame, so a frame's result does not depend on its company.
/// `plan` must fit `tables`.
void fbank(const FbankTables& tables, std::span<const FbankJob> jobs, FbankPlan& plan);

}  // namespace tutti::cpu
