#include "audio/fbank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace tutti {
namespace {

double mel(double hertz) { return 1127.0 * std::log(1.0 + hertz / 700.0); }

double upper_frequency(const FbankOptions& options) {
  const double nyquist = options.sample_rate / 2.0;
  return options.high_freq > 0 ? options.high_freq : nyquist + options.high_freq;
}

void check(const FbankOptions& options) {
  const auto require = [](bool holds, std::string_view what) {
    if (!holds) throw std::invalid_argument(fmt::format("filter bank: {}", what));
  };
  require(options.sample_rate >= 1000 && options.sample_rate <= 384000,
          fmt::format("sample rate {}: expected 1000 to 384000 Hz", options.sample_rate));
  require(options.frame_length_ms >= 2 && options.frame_length_ms <= 1000,
          fmt::format("frame length {} ms: expected 2 to 1000", options.frame_length_ms));
  require(options.frame_shift_ms >= 1 && options.frame_shift_ms <= options.frame_length_ms,
          fmt::format("frame shift {} ms: expected 1 to the frame length, {}", options.frame_shift_ms,
                      options.frame_length_ms));
  require(options.num_mel_bins >= 1 && options.num_mel_bins <= options.fft_size() / 2,
          fmt::format("{} mel bins: expected 1 to {}, the bins of the power spectrum", options.num_mel_bins,
                      options.fft_size() / 2));
  const double high = upper_frequency(options);
  require(options.low_freq >= 0 && options.low_freq < high && high <= options.sample_rate / 2.0,
          fmt::format("mel filters from {} to {} Hz: expected 0 <= low < high <= {}", options.low_freq, high,
                      options.sample_rate / 2.0));
}

std::vector<float> povey_window(int length) {
  std::vector<float> window(static_cast<size_t>(length));
  for (int n = 0; n < length; ++n) {
    const double hann = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * n / (length - 1));
    window[static_cast<size_t>(n)] = static_cast<float>(std::pow(hann, 0.85));
  }
  return window;
}

/// A triangle on the mel axis. Bins stop short of the Nyquist frequency, as Kaldi's do.
FbankTables::MelFilter triangle(const FbankOptions& options, double left, double center, double right) {
  FbankTables::MelFilter filter{0, {}};
  const double bin_width = static_cast<double>(options.sample_rate) / options.fft_size();
  for (int bin = 0; bin < options.fft_size() / 2; ++bin) {
    const double at = mel(bin_width * bin);
    const double weight = std::min((at - left) / (center - left), (right - at) / (right - center));
    if (weight <= 0) continue;
    if (filter.weights.empty()) filter.first_bin = bin;
    filter.weights.push_back(static_cast<float>(weight));
  }
  return filter;
}

}  // namespace

int FbankOptions::fft_size() const {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(frame_length())));
}

int64_t FbankOptions::frames(int64_t samples) const {
  return samples < frame_length() ? 0 : (samples - frame_length()) / frame_shift() + 1;
}

FbankTables::FbankTables(const FbankOptions& requested) : options(requested) {
  check(options);
  window = povey_window(options.frame_length());
  const double low = mel(options.low_freq);
  const double step = (mel(upper_frequency(options)) - low) / (options.num_mel_bins + 1);
  filters.reserve(static_cast<size_t>(options.num_mel_bins));
  for (int m = 0; m < options.num_mel_bins; ++m) {
    filters.push_back(triangle(options, low + m * step, low + (m + 1) * step, low + (m + 2) * step));
  }
}

}  // namespace tutti
