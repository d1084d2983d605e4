#pragma once

#include <cstdint>
#include <string_view>

#include "tests/audio/coded_audio.hpp"

namespace tutti::test {

/// EBML elements, byte by byte (RFC 8794).

inline constexpr uint64_t unknown_size = ~uint64_t{0};

inline Bytes big_endian(uint64_t value, int size) {
  Bytes bytes;
  for (int i = size; i-- > 0;) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
  return bytes;
}

inline Bytes element_head(uint32_t id, uint64_t size) {
  int id_bytes = 1;
  while (id_bytes < 4 && id >> (8 * id_bytes) != 0) ++id_bytes;
  const uint64_t mask = (uint64_t{1} << 56) - 1;
  return joined({big_endian(id, id_bytes), big_endian((uint64_t{1} << 56) | (size & mask), 8)});
}

inline Bytes element(uint32_t id, const Bytes& body) { return joined({element_head(id, body.size()), body}); }

inline Bytes text_element(uint32_t id, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return element(id, {bytes.begin(), bytes.end()});
}

inline Bytes number_element(uint32_t id, uint64_t value) { return element(id, big_endian(value, 8)); }

inline Bytes opus_head(int channels = 1, int pre_skip = 0, int family = 0) {
  Bytes head;
  for (const char c : std::string_view("OpusHead")) head.push_back(static_cast<std::byte>(c));
  return joined(
      {head, bytes_of({1, channels, pre_skip & 0xff, pre_skip >> 8, 0x80, 0xbb, 0, 0, 0, 0, family})});
}

inline Bytes ebml_header(std::string_view type = "webm") {
  return element(0x1a45dfa3, text_element(0x4282, type));
}

inline Bytes opus_track(int number = 1, const Bytes& head = opus_head()) {
  return element(0xae, joined({number_element(0xd7, static_cast<uint64_t>(number)),
                               text_element(0x86, "A_OPUS"), element(0x63a2, head)}));
}

/// Of unknown size: the end of what follows is not known.
inline Bytes segment_head() { return element_head(0x18538067, unknown_size); }

inline Bytes cluster_head(uint64_t ticks) {
  return joined({element_head(0x1f43b675, unknown_size), number_element(0xe7, ticks)});
}

inline Bytes block_body(const Bytes& packet, int16_t ticks, int track = 1, int flags = 0) {
  const auto time = static_cast<uint16_t>(ticks);
  return joined({bytes_of({0x80 | track, time >> 8, time & 0xff, flags}), packet});
}

inline Bytes simple_block(const Bytes& packet, int16_t ticks, int track = 1) {
  return element(0xa3, block_body(packet, ticks, track));
}

/// Up to the first cluster.
inline Bytes webm_head(const Bytes& tracks = opus_track()) {
  return joined({ebml_header(), segment_head(), element(0x1654ae6b, tracks)});
}

}  // namespace tutti::test
