#pragma once

#include <cstdint>
#include <vector>

namespace tutti {

/// Kaldi's log-mel filter bank as WeNet calls it (torchaudio.compliance.kaldi.fbank with dither 0,
/// energy_floor 0, snip_edges, povey window, DC removal, pre-emphasis 0.97, power spectrum, natural log
/// floored at FLT_EPSILON). Samples are in [-1, 1) here and scaled to the int16 range inside.
struct FbankOptions {
  int sample_rate = 16000;
  int frame_length_ms = 25;
  int frame_shift_ms = 10;
  int num_mel_bins = 80;
  float low_freq = 20.0F;
  float high_freq = 0.0F;  ///< <= 0: offset from the Nyquist frequency
  float preemphasis = 0.97F;

  [[nodiscard]] int frame_length() const { return sample_rate * frame_length_ms / 1000; }
  [[nodiscard]] int frame_shift() const { return sample_rate * frame_shift_ms / 1000; }
  /// frame_length rounded up to a power of two.
  [[nodiscard]] int fft_size() const;
  /// Whole frames in `samples` samples (snip_edges).
  [[nodiscard]] int64_t frames(int64_t samples) const;
};

/// What a filter bank kernel reads: built once per model, immutable.
struct FbankTables {
  explicit FbankTables(const FbankOptions& options);

  /// One triangular mel filter: weights[i] applies to power bin first_bin + i.
  struct MelFilter {
    int first_bin;
    std::vector<float> weights;
  };

  FbankOptions options;
  std::vector<float> window;       ///< frame_length: povey, (0.5 - 0.5 cos(2 pi n / (N-1)))^0.85
  std::vector<MelFilter> filters;  ///< num_mel_bins
};

}  // namespace tutti
