#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/ops.hpp"

namespace tutti::cpu {

/// Floats of scratch that `conv_module` needs.
[[nodiscard]] size_t conv_module_scratch_floats(int channels, int kernel_size);

/// Ops::conv_module: GLU over the extended rows, causal depthwise convolution, norm, swish.
/// `scratch` is 64-byte aligned for speed.
void conv_module(const BatchLayout& layout, const TensorView& extended, const ConvModuleWeights& weights,
                 float eps, const TensorView& out, std::span<float> scratch);

/// Ops::extend_with_context: each lane's cached left context before its rows, then the last rows as its
/// cache.
void extend_with_context(const BatchLayout& layout, const TensorView& x, std::span<const int32_t> slots,
                         const TensorView& cache, const TensorView& extended);

}  // namespace tutti::cpu
