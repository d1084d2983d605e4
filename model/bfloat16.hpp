#pragma once

#include "gpu/bfloat16.hpp"
#include "gpu/tensor.hpp"

namespace tutti {

/// The f32 tensor rounded to bf16.
[[nodiscard]] Tensor narrow_to_bfloat16(const TensorView& values);

/// The bf16 tensor as f32.
[[nodiscard]] Tensor widen_to_float(const TensorView& values);

}  // namespace tutti
