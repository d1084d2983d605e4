#pragma once

#include <string_view>

#include "gpu/cuda/kernels.hpp"
#include "gpu/ops.hpp"

namespace tutti::cuda {

/// Frames or bins that a 3-wide convolution of stride 2 without padding leaves.
constexpr int halve(int n) { return (n - 1) / 2; }

/// "fp32", "bf16", "fp16", "fp8" or "int8".
[[nodiscard]] std::string_view matrix_type_name(MatrixType type);

/// A weight (out, in) and its bias in device memory, as gemm.cu and gemm_tensor.cu read them.
class CudaLinear final : public PackedLinear {
 public:
  /// `weight` and `bias` (which may be empty) are host f32; `ops` copies them. Rows that are too long for the
  /// sums of int8 are multiplied as f32, as on a CPU.
  CudaLinear(Ops& ops, MatrixType type, const TensorView& weight, const TensorView& bias);
  [[nodiscard]] int in_features() const override { return in_; }
  [[nodiscard]] int out_features() const override { return static_cast<int>(weight_.shape()[0]); }

  /// The product for `rows` rows of `x`, whose codes are still to be made where the type has such.
  [[nodiscard]] GemmCall call(const GemmInput& x, int64_t rows, const Epilogue& epilogue, float* y) const;

 private:
  int in_;
  MatrixType type_;
  Tensor weight_;  ///< f32, or words of type_
  Tensor scales_, sums_;
  Tensor bias_;
};

/// Queues the product with its type's kernel.
[[nodiscard]] int run(const KernelTable& kernels, Queue* queue, const GemmCall& call);

/// Contiguous rows of `width`.
[[nodiscard]] GemmInput matrix(const float* x, int64_t width);

/// As kernels read and write a decoder's keys and values.
[[nodiscard]] DecoderPages pages(const DecoderKv& kv);

class CudaFbank final : public PackedFbank {
 public:
  /// Throws std::invalid_argument for longer frames than the kernel takes.
  CudaFbank(Ops& ops, const FbankTables& tables);
  [[nodiscard]] FbankPlanTables tables() const;
  [[nodiscard]] int shift() const { return options_.frame_shift(); }
  /// That `frames` frames are made of.
  [[nodiscard]] size_t samples(int frames) const;

 private:
  FbankOptions options_;
  Tensor window_, roots_, order_, first_bin_, weight_begin_, weights_;
};

/// The subsampling's layers, channels innermost.
class CudaSubsampling final : public PackedSubsampling {
 public:
  CudaSubsampling(Ops& ops, MatrixType type, const SubsamplingWeights& weights, int num_mel_bins);

  [[nodiscard]] int mel() const { return mel_; }
  [[nodiscard]] int channels() const { return static_cast<int>(conv1_weight_.shape()[0]); }
  /// Values of a frame after the first convolution, and of a row after the second.
  [[nodiscard]] int64_t frame() const { return static_cast<int64_t>(halve(mel_)) * channels(); }
  [[nodiscard]] int64_t flat() const { return static_cast<int64_t>(halve(halve(mel_))) * channels(); }

  /// From each of `feature_row` (`frames` of them) to a frame.
  [[nodiscard]] FirstConvolutionCall conv1(const float* features, const int32_t* feature_row, int64_t frames,
                                           float* out) const;
  /// From the three frames that begin at `frame_begin[row]` to a row.
  [[nodiscard]] GemmCall conv2(const float* frames, const int32_t* frame_begin, int64_t rows,
                               float* out) const;
  [[nodiscard]] GemmCall out(const float* rows_in, int64_t rows, float scale, float* out) const;

 private:
  int mel_;
  Tensor conv1_weight_, conv1_bias_;
  CudaLinear conv2_;
  CudaLinear out_;
};

}  // namespace tutti::cuda
