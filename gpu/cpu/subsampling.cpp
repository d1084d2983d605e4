#include "gpu/cpu/subsampling.hpp"

#include <algorithm>
#include <cassert>
#include <string>
#include <vector>

#include "config/result.hpp"
#include "gpu/cpu/first_convolution.hpp"

namespace tutti::cpu {
namespace {

/// Frames or bins that a 3-wide convolution of stride 2 without padding leaves.
constexpr int halve(int n) { return (n - 1) / 2; }

class CpuSubsampling final : public PackedSubsampling {
 public:
  CpuSubsampling(GemmPacker& packer, const SubsamplingWeights& w, int num_mel_bins)
      : mel_(num_mel_bins),
        conv1_(w.conv1_weight.f32(), w.conv1_bias.f32(), static_cast<int>(w.conv1_weight.shape[0])),
        conv2_(pack_conv2(packer, w)),
        out_(pack_out(packer, w, halve(halve(num_mel_bins)))) {}

  [[nodiscard]] int mel() const { return mel_; }
  [[nodiscard]] int channels() const { return conv1_.channels(); }
  [[nodiscard]] int bins1() const { return halve(mel_); }
  [[nodiscard]] int bins2() const { return halve(bins1()); }
  [[nodiscard]] const PackedGemm& out() const { return *out_; }
  /// Values of one encoder row before the output layer.
  [[nodiscard]] int flat() const { return bins2() * channels(); }
  /// Encoder rows whose activations fit the scratch of the first convolution.
  [[nodiscard]] int rows_per_piece() const {
    const auto fit = static_cast<int>(SubsamplingScratch::conv1_floats) / (bins1() * channels());
    return halve(fit);
  }
  [[nodiscard]] int rows_per_group() const {
    return static_cast<int>(SubsamplingScratch::conv2_floats) / flat();
  }

  /// Both convolutions for `rows` encoder rows; `features` is at the first of their 4 * rows + 3 frames.
  void convolve(const float* features, int rows, float* conv1, float* out, GemmScratch& scratch) const {
    const int64_t frame = static_cast<int64_t>(bins1()) * channels();
    conv1_.run(features, mel_, 2 * rows + 1, conv1);
    const GemmInput x{.base = conv1,
                      .row_stride = 2 * channels(),
                      .group_rows = bins2(),
                      .group_stride = 2 * frame,
                      .run_length = 3 * channels(),
                      .run_stride = frame};
    conv2_->run(x, static_cast<int64_t>(rows) * bins2(), {.y = out, .activation = Activation::relu}, scratch);
  }

 private:
  /// (out, in, time, frequency) to (out, time, frequency, in).
  static std::unique_ptr<const PackedGemm> pack_conv2(GemmPacker& packer, const SubsamplingWeights& w) {
    const auto d = static_cast<int>(w.conv2_weight.shape[0]);
    const float* from = w.conv2_weight.f32();
    std::vector<float> permuted(static_cast<size_t>(d) * static_cast<size_t>(d) * 9);
    float* to = permuted.data();
    for (int64_t o = 0; o < d; ++o) {
      for (int tap = 0; tap < 9; ++tap) {
        for (int64_t c = 0; c < d; ++c) *to++ = from[(o * d + c) * 9 + tap];
      }
    }
    return packer.pack({permuted.data(), w.conv2_bias.f32(), 9 * d, d});
  }

  /// Columns c * F + f to f * D + c.
  static std::unique_ptr<const PackedGemm> pack_out(GemmPacker& packer, const SubsamplingWeights& w,
                                                    int bins) {
    const auto d = static_cast<int>(w.out_weight.shape[0]);
    const int64_t channels = w.conv2_weight.shape[0];
    const float* from = w.out_weight.f32();
    std::vector<float> permuted(static_cast<size_t>(w.out_weight.shape.elements()));
    float* to = permuted.data();
    for (int64_t o = 0; o < d; ++o) {
      for (int64_t f = 0; f < bins; ++f) {
        for (int64_t c = 0; c < channels; ++c) *to++ = from[(o * channels + c) * bins + f];
      }
    }
    return packer.pack({permuted.data(), w.out_bias.f32(), static_cast<int>(channels) * bins, d});
  }

  int mel_;
  FirstConvolution conv1_;
  std::unique_ptr<const PackedGemm> conv2_;
  std::unique_ptr<const PackedGemm> out_;
};

void check_fits_scratch(int64_t channels, int num_mel_bins) {
  const auto bins1 = static_cast<int64_t>(halve(num_mel_bins));
  if (num_mel_bins >= 7 && 3 * bins1 * channels <= static_cast<int64_t>(SubsamplingScratch::conv1_floats))
    return;
  throw SetupError("a subsampling of " + std::to_string(num_mel_bins) + " mel bins to " +
                   std::to_string(channels) + " channels is not supported: at least 7 bins, and at most " +
                   std::to_string(SubsamplingScratch::conv1_floats) + " values in 3 frames after the first " +
                   "convolution, are accepted");
}

}  // namespace

std::shared_ptr<const PackedSubsampling> pack_subsampling(GemmPacker& packer,
                                                          const SubsamplingWeights& weights,
                                                          int num_mel_bins) {
  const int64_t channels = weights.conv1_weight.shape[0];
  check_fits_scratch(channels, num_mel_bins);
  assert(weights.conv2_weight.shape == Shape({channels, channels, 3, 3}));
  assert(weights.out_weight.cols() == channels * halve(halve(num_mel_bins)));
  return std::make_shared<CpuSubsampling>(packer, weights, num_mel_bins);
}

void subsample(const PackedSubsampling& weights, const BatchLayout& feature_layout,
               const TensorView& features, const BatchLayout& layout, float scale, const TensorView& out,
               SubsamplingScratch& activations, GemmScratch& scratch) {
  const auto& w = static_cast<const CpuSubsampling&>(weights);
  const int64_t width = w.out().out_features();
  int first = 0;  // of the rows that wait in `activations` for the output layer
  const auto flush = [&](int end) {
    const GemmInput x = GemmInput::matrix(activations.conv2.data(), w.flat());
    w.out().run(x, end - first, {.y = out.f32() + first * width, .scale = scale}, scratch);
    first = end;
  };
  for (int lane = 0; lane < layout.lanes(); ++lane) {
    assert(layout.rows(lane) == halve(halve(feature_layout.rows(lane))));
    const float* frames = features.f32() + static_cast<int64_t>(feature_layout.row_begin[lane]) * w.mel();
    for (int row = layout.row_begin[lane]; row < layout.row_begin[lane + 1];) {
      const int rows = std::min(w.rows_per_piece(), layout.row_begin[lane + 1] - row);
      if (row + rows - first > w.rows_per_group()) flush(row);
      float* waiting = activations.conv2.data() + static_cast<int64_t>(row - first) * w.flat();
      w.convolve(frames, rows, activations.conv1.data(), waiting, scratch);
      frames += static_cast<int64_t>(4) * rows * w.mel();
      row += rows;
    }
  }
  flush(layout.rows());
}

void cmvn(const BatchLayout& layout, std::span<const float* const> features, const TensorView& mean,
          const TensorView& istd, const TensorView& out) {
  const auto mel = static_cast<int>(out.cols());
  float* y = out.f32();
  for (int lane = 0; lane < layout.lanes(); ++lane) {
    const float* x = features[static_cast<size_t>(lane)];
    for (int row = 0; row < layout.rows(lane); ++row, x += mel, y += mel) {
      for (int b = 0; b < mel; ++b) y[b] = (x[b] - mean.f32()[b]) * istd.f32()[b];
    }
  }
}

}  // namespace tutti::cpu
