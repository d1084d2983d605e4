#pragma once

#include <memory>

#include "gpu/cpu/gemm.hpp"

namespace tutti::cpu {

/// A product of integers: weights are rounded to 8 bits when they are packed, one scale an output, and rows
/// as they are multiplied, one scale and zero a row (int8_weights.hpp, row_quantizer.hpp). Sums are exact in
/// 32 bits, so that they are the same on every instruction set. Nothing needs calibration. Returns null for
/// rows so long that a sum might not fit.
[[nodiscard]] std::unique_ptr<const PackedGemm> pack_int8_gemm(const GemmWeights& weights);

}  // namespace tutti::cpu
