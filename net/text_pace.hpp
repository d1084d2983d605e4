#pragma once

#include <algorithm>
#include <chrono>

namespace tutti {

/// How fast a session's text messages are read. Audio is bounded by credit; text is not, so a client that
/// floods it is read no faster than this and TCP pushes back. A generic cell rate: `burst` at once, then one
/// per `interval`.
class TextPace {
 public:
  using Clock = std::chrono::steady_clock;

  /// Notes one message; returns how long to wait before the next read.
  [[nodiscard]] Clock::duration note(Clock::time_point now) {
    due_ = std::max(due_, now) + interval;
    return std::max(due_ - burst * interval - now, Clock::duration::zero());
  }

  static constexpr int burst = 4;
  static constexpr Clock::duration interval = std::chrono::milliseconds(10);

 private:
  Clock::time_point due_{};
};

}  // namespace tutti
