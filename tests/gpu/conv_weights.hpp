#pragma once

#include <vector>

#include "gpu/ops.hpp"
#include "tests/gpu/random_tensor.hpp"

namespace tutti {

/// BatchLayout::row_begin of lanes with so many rows.
inline std::vector<int32_t> row_begins(const std::vector<int>& rows) {
  std::vector<int32_t> begins{0};
  for (const int n : rows) begins.push_back(begins.back() + n);
  return begins;
}

/// Owns what ConvModuleWeights refers to.
struct ConvWeights {
  Tensor depthwise_weight, depthwise_bias, norm_scale, norm_shift;
  bool folded;

  [[nodiscard]] ConvModuleWeights view() const {
    return {depthwise_weight, depthwise_bias, norm_scale, norm_shift, folded};
  }
};

inline ConvWeights random_conv_weights(Random& random, int channels, int taps, bool folded) {
  return {random.tensor({channels, taps}, 0.3F), random.tensor({channels}, 0.3F), random.tensor({channels}),
          random.tensor({channels}), folded};
}

}  // namespace tutti
