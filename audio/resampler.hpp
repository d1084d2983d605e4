#pragma once

#include <memory>
#include <span>
#include <vector>

#include "config/result.hpp"

namespace tutti {

inline constexpr int min_sample_rate = 4000;
inline constexpr int max_sample_rate = 384000;

/// A streaming sample rate converter (speexdsp) with its state carried across calls. The output depends only
/// on the samples, not on how they were cut into calls. It runs 80 samples of the lower rate behind its
/// input: 10 ms for telephone audio. Equal rates pass samples through unchanged, bit for bit.
class Resampler {
 public:
  /// Fails with "bad_sample_rate" outside [min_sample_rate, max_sample_rate].
  [[nodiscard]] static Result<Resampler> create(int input_rate, int output_rate);

  Resampler(Resampler&&) noexcept;
  Resampler& operator=(Resampler&&) noexcept;
  ~Resampler();

  /// Appends what `in` completes.
  void process(std::span<const float> in, std::vector<float>& out);
  /// Appends the tail that waits for samples to come; the next process() starts a new signal.
  /// After N input samples in all, ceil(N * output_rate / input_rate) samples have come out.
  void flush(std::vector<float>& out);

 private:
  struct Impl;
  explicit Resampler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
