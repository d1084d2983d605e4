#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/clock.hpp"

namespace tutti {

/// Samples of one stream that wait for their chunk, addressed by their index on the stream's 64-bit sample
/// clock, with the time each arrived. Contiguous, so that a filter bank can read across what came in pieces.
class AudioBuffer {
 public:
  explicit AudioBuffer(int64_t capacity)
      : capacity_(capacity),
        samples_(std::make_unique_for_overwrite<float[]>(static_cast<size_t>(capacity))) {}

  /// False, and nothing taken, when the samples do not fit.
  [[nodiscard]] bool append(std::span<const float> samples, Clock::time_point arrival);
  /// Forgets the samples before index `sample`.
  void drop_until(int64_t sample);
  /// Empty, with the clock at `sample`.
  void restart(int64_t sample = 0);

  /// Index of the first sample held, and one past the last.
  [[nodiscard]] int64_t begin() const { return end_ - size_; }
  [[nodiscard]] int64_t end() const { return end_; }
  [[nodiscard]] const float* at(int64_t sample) const {
    return samples_.get() + offset_ + (sample - begin());
  }
  /// When everything before index `sample` had arrived.
  [[nodiscard]] Clock::time_point arrival_of(int64_t sample) const;

 private:
  struct Arrival {
    int64_t end = 0;
    Clock::time_point time;
  };

  int64_t capacity_;
  std::unique_ptr<float[]> samples_;
  int64_t offset_ = 0;  // of the first sample held, in samples_
  int64_t size_ = 0;
  int64_t end_ = 0;
  // The latest pieces, oldest first. When there are more, the newest takes in the next with its earlier time,
  // so that a backlog looks older, never younger, than it is.
  std::array<Arrival, 64> arrivals_{};
  size_t arrivals_count_ = 0;
};

}  // namespace tutti
