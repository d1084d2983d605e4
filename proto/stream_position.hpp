#pragma once

#include <cstddef>
#include <deque>

namespace tutti::proto {

/// Where in a stream a place of the received audio is, when the client leaves parts out and says so.
class StreamPosition {
 public:
  /// What follows `received` seconds of audio is at `position` seconds of the stream.
  void jump(double received, double position) {
    if (jumps_.size() == max_jumps) jumps_.pop_front();
    jumps_.push_back({received, position - received});
  }
  [[nodiscard]] double at(double received) const {
    double offset = 0;
    for (const Jump& jump : jumps_) {
      if (jump.received <= received) offset = jump.offset;
    }
    return received + offset;
  }

 private:
  // Of the oldest nobody asks any more: results are seconds behind the audio.
  static constexpr size_t max_jumps = 64;
  struct Jump {
    double received;
    double offset;
  };
  std::deque<Jump> jumps_;
};

}  // namespace tutti::proto
