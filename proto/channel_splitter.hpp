#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "audio/pcm.hpp"

namespace tutti::proto {

/// Takes interleaved audio apart, for sessions in which each channel is a track of its own.
class ChannelSplitter {
 public:
  /// `sample_bytes` of one sample of one channel, 1 to 4; 1 <= channels <= max_channels.
  ChannelSplitter(int sample_bytes, int channels);

  /// Each channel's part of `bytes`, in the order of the channels. A frame that is split between two calls is
  /// carried over.
  [[nodiscard]] std::vector<std::vector<std::byte>> split(std::span<const std::byte> bytes);

 private:
  size_t sample_bytes_;
  size_t channels_;
  std::array<std::byte, size_t{4} * max_channels> carry_{};
  size_t carried_ = 0;
};

}  // namespace tutti::proto
