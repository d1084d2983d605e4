#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "engine/clock.hpp"

namespace tutti {

/// Whether a device is so late with the streams it has that it should take no more: by the 99th percentile of
/// its chunks' latencies over the last `window`. It closes above the target, and opens again below
/// `reopens_at` of it, so that it does not flutter.
class LatencyGuard {
 public:
  static constexpr auto window = std::chrono::seconds(10);
  static constexpr double reopens_at = 0.7;
  /// Fewer chunks say nothing: one that came late would be more than a hundredth.
  static constexpr int64_t fewest_chunks = 100;

  /// Never closes with a target of 0.
  explicit LatencyGuard(std::chrono::milliseconds target) : target_(target) {}

  void record(Clock::time_point now, Clock::duration latency);
  [[nodiscard]] bool is_closed(Clock::time_point now);

 private:
  /// The chunks of one second.
  struct Bucket {
    int64_t second = -1;
    int64_t chunks = 0;
    int64_t late = 0;  // above the target
    int64_t slow = 0;  // above reopens_at of it
  };
  [[nodiscard]] static int64_t second_of(Clock::time_point now);

  std::chrono::milliseconds target_;
  std::array<Bucket, 10> buckets_{};  // by second, modulo
  bool closed_ = false;
};

}  // namespace tutti
