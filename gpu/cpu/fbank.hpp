#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/ops.hpp"

namespace tutti::cpu {

/// A filter bank's tables with what its FFT needs: roots of unity, and the order in which its result lies.
class FbankPlan final : public PackedFbank {
 public:
  explicit FbankPlan(const FbankTables& tables);

  [[nodiscard]] const FbankTables& tables() const { return tables_; }
  /// Half the FFT size: a real transform is a complex one of half the length.
  [[nodiscard]] int points() const { return points_; }
  /// cos and sin of -2 pi k / (2 points), k < 2 points, interleaved.
  [[nodiscard]] const float* roots() const { return roots_.data(); }
  /// Where the in-place transform leaves frequency k, k < points.
  [[nodiscard]] const int32_t* order() const { return order_.data(); }
  /// Working memory of `fbank`.
  [[nodiscard]] size_t scratch_floats() const;

 private:
  FbankTables tables_;
  int points_;
  std::vector<float> roots_;
  std::vector<int32_t> order_;
};

/// Ops::fbank. One vector lane computes one frame, so a frame's result does not depend on its company.
void fbank(const FbankPlan& plan, std::span<const FbankJob> jobs, std::span<float> scratch);

}  // namespace tutti::cpu
