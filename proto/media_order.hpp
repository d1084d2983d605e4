#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "audio/pcm.hpp"

namespace tutti::proto {

/// One track of a telephone call, which comes in frames that may be late, in another order or lost: puts them
/// into order again, and silence in the place of what is missing, so that a sample's place is its time.
class MediaOrder {
 public:
  struct Frame {
    std::optional<int64_t> number;        ///< one more than that of the frame before
    std::optional<int64_t> timestamp_ms;  ///< since the begin of the call
    std::vector<std::byte> payload;
  };

  /// How long a missing frame is waited for, in audio of those that follow it.
  static constexpr int patience_ms = 200;
  /// Silence that is put in for one frame at most; what is still missing is made up for later.
  static constexpr int longest_fill_ms = 10'000;

  MediaOrder(Encoding encoding, int sample_rate);

  /// False when the frame is dropped: its place has passed, or is taken.
  bool push(Frame frame);
  /// The audio whose turn it is, `longest_take_ms` of silence in it at most: the rest comes with later calls.
  [[nodiscard]] std::vector<std::byte> take();
  /// All that is left, whether frames are missing or not.
  [[nodiscard]] std::vector<std::byte> flush();

  static constexpr int longest_take_ms = 1000;

 private:
  /// A stretch of silence, then a frame.
  struct Piece {
    size_t silence;
    std::vector<std::byte> payload;
  };

  void release();
  void admit(Frame frame, bool follows);
  [[nodiscard]] bool is_next(int64_t number, const Frame& frame) const;
  [[nodiscard]] size_t bytes(int64_t ms) const;
  [[nodiscard]] size_t fill_before(const Frame& frame, bool follows) const;

  std::byte silence_;
  size_t bytes_per_second_;
  size_t sample_bytes_;
  std::optional<int64_t> next_;     // the number whose turn it is
  std::map<int64_t, Frame> early_;  // by number
  size_t early_bytes_ = 0;
  std::deque<Piece> ready_;
  size_t ready_bytes_ = 0;
  int64_t end_ = 0;  // bytes before the next frame, with silence
};

}  // namespace tutti::proto
