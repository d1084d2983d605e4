#include "audio/opus_packet.hpp"

#include <fmt/format.h>
#include <opus/opus.h>

#include <algorithm>
#include <string_view>

namespace tutti {
namespace {

constexpr std::string_view magic = "OpusHead";
constexpr size_t head_bytes = 19;

int byte_at(std::span<const std::byte> bytes, size_t index) { return std::to_integer<int>(bytes[index]); }

int read_16(std::span<const std::byte> bytes, size_t index) {
  return byte_at(bytes, index) | byte_at(bytes, index + 1) << 8;
}

}  // namespace

bool begins_opus_head(std::span<const std::byte> bytes) {
  return bytes.size() >= magic.size() && std::ranges::equal(bytes.first(magic.size()), magic, {}, {},
                                                            [](char c) { return static_cast<std::byte>(c); });
}

Result<OpusHead> parse_opus_head(std::span<const std::byte> bytes) {
  if (!begins_opus_head(bytes) || bytes.size() < head_bytes) {
    return fail("bad_audio",
                fmt::format("the Opus header has {} bytes; it begins with \"OpusHead\" and has {} at least",
                            bytes.size(), head_bytes));
  }
  const int version = byte_at(bytes, 8);
  if (version >= 16) {
    return fail("bad_audio",
                fmt::format("the Opus header has version {}; accepted is a version below 16", version));
  }
  const OpusHead head{.channels = byte_at(bytes, 9),
                      .pre_skip = read_16(bytes, 10),
                      .gain = static_cast<int16_t>(read_16(bytes, 16))};
  const int family = byte_at(bytes, 18);
  if (family != 0 || head.channels < 1 || head.channels > 2) {
    return fail("bad_audio",
                fmt::format("the Opus stream has {} channel{} of mapping family {}; accepted are one "
                            "or two channels of family 0",
                            head.channels, head.channels == 1 ? "" : "s", family));
  }
  return head;
}

int opus_packet_samples(std::span<const std::byte> packet) {
  if (packet.empty()) return 0;  // may be at no address, which libopus does not take
  const int samples = opus_packet_get_nb_samples(reinterpret_cast<const unsigned char*>(packet.data()),
                                                 static_cast<opus_int32>(packet.size()), opus_clock_rate);
  return std::max(samples, 0);
}

}  // namespace tutti
