#pragma once

#include <memory>

#include "gpu/cpu/gemm.hpp"
#include "gpu/cpu/gemm_packer.hpp"
#include "gpu/ops.hpp"

namespace tutti::cpu {

/// Ops::pack_linear.
[[nodiscard]] std::shared_ptr<const PackedLinear> pack_linear(GemmPacker& packer, const TensorView& weight,
                                                              const TensorView& bias);

/// Ops::linear.
void linear(const PackedLinear& weights, const TensorView& x, const Epilogue& epilogue, const TensorView& y,
            GemmScratch& scratch);

}  // namespace tutti::cpu
