#pragma once

#include <memory>
#include <string>

#include "gpu/cpu/gemm.hpp"

namespace tutti::cpu {

/// oneDNN's matmul over weights in the layout it likes best, for a ladder of row counts; the last rows are
/// padded to the lowest. All primitives are made here, none in `run`. Whether rows are independent of the
/// batch depends on the implementation that oneDNN picks for this CPU: see `rows_are_independent`. Returns
/// null when the matrix is too large for GemmScratch.
[[nodiscard]] std::unique_ptr<const PackedGemm> pack_onednn_gemm(const GemmWeights& weights);

/// "oneDNN 2.6.3".
[[nodiscard]] std::string onednn_version();

}  // namespace tutti::cpu
