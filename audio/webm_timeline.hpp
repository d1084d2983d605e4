#pragma once

#include <cstdint>
#include <optional>

#include "config/result.hpp"

namespace tutti {

/// Where a WebM file's blocks are in time, against the samples that came before them.
class WebmTimeline {
 public:
  /// Another file, or another place of one: its first block follows the samples so far.
  void restart() { base_.reset(); }
  /// Nanoseconds of a tick. Fails with "bad_audio" unless it is 1 to 1 s.
  [[nodiscard]] Result<void> set_scale(uint64_t nanoseconds);
  void set_cluster(uint64_t ticks) { cluster_ = ticks; }

  /// A block at `ticks` after its cluster begins. Returns how many samples (at 48 kHz) are missing before it,
  /// at most OpusDemuxer::longest_fill. Fails with "bad_audio" when that is beyond 100 years.
  [[nodiscard]] Result<int64_t> place_block(int16_t ticks);
  /// So many samples of it.
  void advance(int64_t samples) { position_ += samples; }

  /// What so many nanoseconds come to, at 48 kHz: at most `most`.
  [[nodiscard]] static int64_t samples_in(int64_t nanoseconds, int64_t most);

 private:
  uint64_t scale_ = 1'000'000;
  uint64_t cluster_ = 0;
  int64_t position_ = 0;         // samples at 48 kHz, with what was missing
  std::optional<int64_t> base_;  // what a block's time has more than its position, in samples
};

}  // namespace tutti
