#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "gpu/cpu/gemm.hpp"
#include "gpu/weight_type.hpp"

namespace tutti::cpu {

/// Which product weight matrices are packed for. `automatic` is what serves, the others are for tests.
enum class GemmChoice : uint8_t {
  automatic,  ///< oneDNN where its rows pass the row test, else and at a lowered level the panel kernel
  panel,
  onednn,  ///< without the row test
};

/// Packs weight matrices of one type, choosing the product for each shape. bf16 and integers have one product
/// each, ours.
/// For fp32 oneDNN is the faster where it has kernels of its own for prepacked weights (AVX-512); the general
/// product it falls back to on AVX2 changes a row's bits with the number of rows, and is no faster than the
/// panel kernel.
class GemmPacker {
 public:
  explicit GemmPacker(GemmChoice choice, WeightType type = WeightType::fp32);
  /// "oneDNN 2.6.3 + panel kernel", "panel kernel", "panel kernel of bf16" or "int8 kernel".
  [[nodiscard]] std::string description() const;
  [[nodiscard]] std::unique_ptr<const PackedGemm> pack(const GemmWeights& weights);

 private:
  /// The row test's verdict on oneDNN for matrices of this shape, taken once.
  [[nodiscard]] bool onednn_passes(int in_features, int out_features);

  GemmChoice choice_;
  WeightType type_;
  std::map<std::pair<int, int>, bool> verdicts_;
  bool use_onednn_;
};

}  // namespace tutti::cpu
