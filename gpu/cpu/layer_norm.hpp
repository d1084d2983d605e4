#pragma once

#include "gpu/tensor.hpp"

namespace tutti::cpu {

/// y = gamma * (x - mean) / sqrt(var + eps) + beta over the last axis of x (rows, D). y may be x.
/// Mean and variance are taken in two passes, so a large common offset does not cancel the variance.
void layer_norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, float eps,
                const TensorView& y);

}  // namespace tutti::cpu
