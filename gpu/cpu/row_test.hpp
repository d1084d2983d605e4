#pragma once

#include <cstddef>
#include <vector>

#include "gpu/cpu/gemm.hpp"

namespace tutti::cpu {

/// Numbers in [-1, 1] without a pattern, the same at every call.
[[nodiscard]] std::vector<float> arbitrary_values(size_t count);

/// Runs 16 rows of random numbers alone, repeated in larger batches and in other places, and compares bits.
/// Finds products that block the reduction, or choose another kernel, by the number of rows. Takes a few
/// milliseconds.
[[nodiscard]] bool rows_are_independent(const PackedGemm& gemm, GemmScratch& scratch);

}  // namespace tutti::cpu
