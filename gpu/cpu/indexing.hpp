#pragma once

#include <cstdint>
#include <span>

#include "gpu/tensor.hpp"

namespace tutti::cpu {

/// Ops::index_select, index_copy and index_fill on host memory.
void index_select(const TensorView& tensor, int axis, std::span<const int32_t> indices,
                  const TensorView& out);
void index_copy(const TensorView& values, int axis, std::span<const int32_t> indices,
                const TensorView& tensor);
void index_fill(const TensorView& tensor, int axis, std::span<const int32_t> indices, double value);

/// Ops::mean_of_rows.
void mean_of_rows(const TensorView& x, std::span<const int32_t> rows, int group, const TensorView& means);

}  // namespace tutti::cpu
