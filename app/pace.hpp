#pragma once

#include <chrono>
#include <cstdint>

namespace tutti {

/// The clock of a live recording that begins at `start`: a piece can be sent once its last sample was spoken.
class Pace {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr int frame_ms = 20;

  Pace(int sample_rate, TimePoint start) : sample_rate_(sample_rate), start_(start) {}

  /// Samples of one frame, at least one.
  [[nodiscard]] static int64_t frame_samples(int sample_rate) {
    const int64_t samples = int64_t{sample_rate} * frame_ms / 1000;
    return samples > 0 ? samples : 1;
  }
  /// When the first `samples` samples have been spoken.
  [[nodiscard]] TimePoint spoken(int64_t samples) const {
    // Whole seconds apart, so that a day of nanoseconds does not overflow.
    return start_ + std::chrono::seconds(samples / sample_rate_) +
           std::chrono::nanoseconds(samples % sample_rate_ * 1'000'000'000 / sample_rate_);
  }

 private:
  int sample_rate_;
  TimePoint start_;
};

}  // namespace tutti
