#pragma once

#include <memory>

#include "gpu/cpu/gemm.hpp"

namespace tutti::cpu {

/// Our own fp32 product. Weights lie in panels of two vectors of columns; a register tile of rows by one
/// panel takes k = 0, 1, ... K-1 strictly in turn, one fused multiply-add a step. Sums that leave the
/// registers between blocks of K come back unchanged, so neither blocking nor the shape of the tile can be
/// seen in the result. (The blocking is Goto's: "Anatomy of High-Performance Matrix Multiplication".)
[[nodiscard]] std::unique_ptr<const PackedGemm> pack_panel_gemm(const GemmWeights& weights);

/// The same with weights rounded to bfloat16 as they are packed, and widened as they are loaded: half the
/// memory, and the bits of the fp32 product of the rounded weights.
[[nodiscard]] std::unique_ptr<const PackedGemm> pack_bf16_panel_gemm(const GemmWeights& weights);

}  // namespace tutti::cpu
