#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tutti {

/// What a stream or file says it is.
enum class Container : uint8_t {
  unknown,
  wav,
  ogg,
  matroska,  ///< and WebM
  mpeg_audio,
  aac,
  flac,
  mp4,
  aiff,
  amr,
  caf,
};

/// So many of the first bytes tell.
inline constexpr size_t container_magic_bytes = 12;

[[nodiscard]] Container recognize_container(std::span<const std::byte> first_bytes);
/// "an MP3 stream".
[[nodiscard]] std::string_view describe(Container container);
/// Whether a live stream may be one.
[[nodiscard]] bool is_read(Container container);

/// For messages.
inline constexpr std::string_view accepted_containers = "WAV, Ogg with Opus, and WebM with Opus";

}  // namespace tutti
