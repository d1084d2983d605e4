#include "audio/opus_framing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "audio/container.hpp"

namespace tutti {
namespace {

constexpr size_t length_bytes = 2;
// In the place of a length: more than any packet may have.
constexpr size_t too_long = 0xffff;

void write_length(size_t length, std::vector<std::byte>& frame) {
  frame[0] = static_cast<std::byte>(length & 0xff);
  frame[1] = static_cast<std::byte>(length >> 8);
}

size_t read_length(std::span<const std::byte> frame) {
  return std::to_integer<size_t>(frame[0]) | std::to_integer<size_t>(frame[1]) << 8;
}

}  // namespace

std::vector<std::byte> OpusFramer::add(std::span<const std::byte> bytes, bool ends_message) {
  if (frame_.empty()) frame_.resize(length_bytes);
  is_too_long_ = is_too_long_ || frame_.size() - length_bytes + bytes.size() > max_opus_packet_bytes;
  if (is_too_long_) {
    frame_.resize(length_bytes);
  } else {
    frame_.insert(frame_.end(), bytes.begin(), bytes.end());
  }
  if (!ends_message) return {};
  if (!is_too_long_ && frame_.size() == length_bytes) return {};
  write_length(is_too_long_ ? too_long : frame_.size() - length_bytes, frame_);
  is_too_long_ = false;
  return std::exchange(frame_, {});
}

Result<bool> OpusFrameReader::next(std::span<const std::byte>& bytes, PlacedPacket& packet) {
  const auto complete = [&](size_t size) {
    const size_t missing = std::min(size - std::min(size, frame_.size()), bytes.size());
    frame_.insert(frame_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(missing));
    bytes = bytes.subspan(missing);
    return frame_.size() >= size;
  };
  if (!complete(length_bytes)) return false;
  const size_t length = read_length(frame_);
  if (length > max_opus_packet_bytes) {
    return fail("bad_audio",
                fmt::format("packet {} has more than the {} bytes that an Opus packet may have; send "
                            "one packet in each message",
                            packets_, max_opus_packet_bytes));
  }
  if (!complete(length_bytes + length)) return false;
  frame_.erase(frame_.begin(), frame_.begin() + length_bytes);
  packet = {.bytes = std::exchange(frame_, {})};
  if (packets_++ > 0) return true;
  packet.begins = OpusHead{};
  const Container container = recognize_container(packet.bytes);
  if (!is_read(container)) return true;
  return fail("bad_audio", fmt::format("these are no raw Opus packets but {}; ask for that encoding instead",
                                       describe(container)));
}

}  // namespace tutti
