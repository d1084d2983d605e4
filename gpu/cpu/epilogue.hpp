#pragma once

#include <cstdint>

#include "gpu/cpu/gemm.hpp"

namespace tutti::cpu {

/// A block of a product's finished sums.
struct FinishedSums {
  const float* acc;  ///< of the block's first row and column; rows acc_stride apart
  int64_t acc_stride;
  int64_t first_row;  ///< in the product, like first_column
  int first_column;
  int64_t rows;
  int columns;
};

/// y = residual + scale * activation(acc + bias), with `bias` that of the product's column 0. An element's
/// result depends on nothing but its own operands: the last columns of a row take the same instructions as
/// the others.
void apply_epilogue(const FinishedSums& sums, const float* bias, int out_features, const GemmOutput& out);

}  // namespace tutti::cpu
