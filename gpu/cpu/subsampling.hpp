#pragma once

#include <memory>
#include <span>

#include "gpu/cpu/aligned_buffer.hpp"
#include "gpu/cpu/gemm.hpp"
#include "gpu/cpu/gemm_packer.hpp"
#include "gpu/ops.hpp"

namespace tutti::cpu {

/// Activations of the subsampling between its stages. Of fixed size: lanes are taken in pieces that fit, so
/// that neither a wide batch nor one very long lane needs more.
struct SubsamplingScratch {
  static constexpr size_t conv1_floats = size_t{1} << 18;
  static constexpr size_t conv2_floats = size_t{1} << 20;
  static constexpr size_t overrun_floats = 64;  ///< a vector may be stored across the end of conv1's
  AlignedBuffer conv1{conv1_floats + overrun_floats};
  AlignedBuffer conv2{conv2_floats};
};

/// Ops::pack_subsampling. Throws SetupError when one row of activations would not fit the scratch.
[[nodiscard]] std::shared_ptr<const PackedSubsampling> pack_subsampling(GemmPacker& packer,
                                                                        const SubsamplingWeights& weights,
                                                                        int num_mel_bins);

/// Ops::subsample. Activations are channels-last: the first convolution is computed directly, the second as a
/// product over 3 runs of 3 D contiguous values, then the rows of a few lanes go through the output layer.
void subsample(const PackedSubsampling& weights, const BatchLayout& feature_layout,
               const TensorView& features, const BatchLayout& layout, float scale, const TensorView& out,
               SubsamplingScratch& activations, GemmScratch& scratch);

/// Ops::cmvn.
void cmvn(const BatchLayout& layout, std::span<const float* const> features, const TensorView& mean,
          const TensorView& istd, const TensorView& out);

}  // namespace tutti::cpu
