#pragma once

#include "gpu/cpu/aligned_buffer.hpp"

namespace tutti::cpu {

/// The first convolution of the subsampling: 3x3, stride 2, one input channel, ReLU. Nine taps are too few
/// for a matrix product, so channels are the vector lanes.
class FirstConvolution {
 public:
  /// `weight` is (channels, 1, 3, 3), `bias` (channels).
  FirstConvolution(const float* weight, const float* bias, int channels);
  [[nodiscard]] int channels() const { return channels_; }

  /// `features` is (2 * rows + 1, mel), `out` (rows, (mel - 1) / 2, channels) and a vector more, which is
  /// overwritten.
  void run(const float* features, int mel, int rows, float* out) const;

 private:
  int channels_;
  int padded_channels_;
  AlignedBuffer weights_;  ///< nine taps and the bias, each padded_channels
};

}  // namespace tutti::cpu
