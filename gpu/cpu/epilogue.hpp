#pragma once

#include <cstdint>

#include "gpu/ops.hpp"

namespace tutti::cpu {

/// A block of finished sums and where it goes. All pointers are at the block's first row and column.
struct EpilogueBlock {
  const float* acc;  ///< rows acc_stride apart
  int64_t acc_stride;
  float* y;               ///< rows y_stride apart
  const float* residual;  ///< laid out like y, may be y itself; or none
  int64_t y_stride;
  const float* bias;  ///< columns
  int64_t rows;
  int columns;
};

/// y = residual + scale * activation(acc + bias). An element's result depends on nothing but its own
/// operands: the last columns of a row take the same instructions as the others.
void apply_epilogue(const EpilogueBlock& block, Activation activation, float scale);

}  // namespace tutti::cpu
