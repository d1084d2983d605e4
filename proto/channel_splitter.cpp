#include "proto/channel_splitter.hpp"

#include <algorithm>

namespace tutti::proto {

ChannelSplitter::ChannelSplitter(int sample_bytes, int channels)
    : sample_bytes_(static_cast<size_t>(sample_bytes)), channels_(static_cast<size_t>(channels)) {}

std::vector<std::vector<std::byte>> ChannelSplitter::split(std::span<const std::byte> bytes) {
  const size_t frame_bytes = sample_bytes_ * channels_;
  std::vector<std::vector<std::byte>> parts(channels_);
  for (auto& part : parts) part.reserve((carried_ + bytes.size()) / channels_);
  const auto add = [&](const std::byte* frame) {
    for (auto& part : parts) {
      part.insert(part.end(), frame, frame + sample_bytes_);
      frame += sample_bytes_;
    }
  };
  while (!bytes.empty()) {
    if (carried_ == 0 && bytes.size() >= frame_bytes) {
      add(bytes.data());
      bytes = bytes.subspan(frame_bytes);
      continue;
    }
    const size_t taken = std::min(frame_bytes - carried_, bytes.size());
    std::ranges::copy(bytes.first(taken), carry_.begin() + static_cast<std::ptrdiff_t>(carried_));
    carried_ += taken;
    bytes = bytes.subspan(taken);
    if (carried_ < frame_bytes) break;
    add(carry_.data());
    carried_ = 0;
  }
  return parts;
}

}  // namespace tutti::proto
