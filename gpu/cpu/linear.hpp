#pragma once

#include <map>
#include <memory>
#include <utility>

#include "gpu/cpu/gemm.hpp"
#include "gpu/ops.hpp"

namespace tutti::cpu {

/// Which product a weight matrix is packed for; `automatic` is what serves, the others are for tests.
enum class GemmChoice : uint8_t {
  automatic,  ///< oneDNN where its rows are independent of the batch, else the panel kernel
  panel,
  onednn,  ///< whether or not its rows are independent
};

/// Packs weight matrices, choosing the product for each shape.
class GemmPacker {
 public:
  explicit GemmPacker(GemmChoice choice);
  /// "oneDNN 2.6.3 + panel kernel" or "panel kernel".
  [[nodiscard]] std::string_view description() const;
  [[nodiscard]] std::unique_ptr<const PackedGemm> pack(const GemmWeights& weights);

 private:
  GemmChoice choice_;
};

/// Ops::pack_linear.
[[nodiscard]] std::shared_ptr<const PackedLinear> pack_linear(GemmPacker& packer, const TensorView& weight,
                                                              const TensorView& bias);

/// Ops::linear.
void linear(const PackedLinear& weights, const TensorView& x, const Epilogue& epilogue, const TensorView& y,
            GemmScratch& scratch);

}  // namespace tutti::cpu
