#include "gpu/cpu/first_convolution.hpp"

#include <algorithm>

#include "gpu/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/first_convolution.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
//
#include "gpu/cpu/activation-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;

/// One position: `x` is the upper left of its nine features. Channels beyond the last land on the next
/// position, which is computed after this one.
HWY_INLINE void convolve(const float* x, int mel, const float* weights, int channels, int padded,
                         float* out) {
  const Floats d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const float* bias = weights + 9 * padded;
  hn::Vec<Floats> features[9];
#pragma GCC unroll 9
  for (int tap = 0; tap < 9; ++tap) features[tap] = hn::Set(d, x[tap / 3 * mel + tap % 3]);
  for (int c = 0; c < channels; c += lanes) {
    auto sum = hn::Load(d, bias + c);
#pragma GCC unroll 9
    for (int tap = 0; tap < 9; ++tap) {
      sum = hn::MulAdd(features[tap], hn::Load(d, weights + tap * padded + c), sum);
    }
    hn::StoreU(relu(d, sum), d, out + c);
  }
}

void convolve_rows(const float* features, int mel, int rows, const float* weights, int channels, int padded,
                   float* out) {
  const int bins = (mel - 1) / 2;
  for (int r = 0; r < rows; ++r) {
    for (int f = 0; f < bins; ++f) {
      convolve(features + 2 * r * mel + 2 * f, mel, weights, channels, padded, out);
      out += channels;
    }
  }
}

}  // namespace tutti::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::cpu {

HWY_EXPORT(convolve_rows);

FirstConvolution::FirstConvolution(const float* weight, const float* bias, int channels)
    : channels_(channels),
      padded_channels_((channels + 15) / 16 * 16),
      weights_(static_cast<size_t>(10 * padded_channels_)) {
  std::ranges::fill(weights_.span(), 0.0F);
  for (int c = 0; c < channels; ++c) {
    for (int tap = 0; tap < 9; ++tap) weights_.data()[tap * padded_channels_ + c] = weight[c * 9 + tap];
    weights_.data()[9 * padded_channels_ + c] = bias[c];
  }
}

void FirstConvolution::run(const float* features, int mel, int rows, float* out) const {
  HWY_DYNAMIC_DISPATCH(convolve_rows)
  (features, mel, rows, weights_.data(), channels_, padded_channels_, out);
}

}  // namespace tutti::cpu
#endif
