#include "audio/container.hpp"

#include <algorithm>
#include <array>

namespace tutti {
namespace {

using namespace std::string_view_literals;

struct Magic {
  Container container;
  size_t offset;
  std::string_view bytes;
};

constexpr std::array magics = {
    Magic{Container::wav, 8, "WAVE"sv},  Magic{Container::aiff, 8, "AIFF"sv},
    Magic{Container::aiff, 8, "AIFC"sv}, Magic{Container::mp4, 4, "ftyp"sv},
    Magic{Container::ogg, 0, "OggS"sv},  Magic{Container::matroska, 0, "\x1a\x45\xdf\xa3"sv},
    Magic{Container::flac, 0, "fLaC"sv}, Magic{Container::mpeg_audio, 0, "ID3"sv},
    Magic{Container::amr, 0, "#!AMR"sv}, Magic{Container::caf, 0, "caff"sv},
};

/// A frame header of MPEG audio (ISO 11172-3) or of ADTS (ISO 13818-7), which have twelve or more bits set at
/// first.
Container recognize_frame(std::span<const std::byte> bytes) {
  if (bytes.size() < 3) return Container::unknown;
  const int second = std::to_integer<int>(bytes[1]);
  const int third = std::to_integer<int>(bytes[2]);
  if (bytes[0] != std::byte{0xff} || (second & 0xe0) != 0xe0) return Container::unknown;
  if ((second & 0xf6) == 0xf0) return (third & 0x3c) <= 12 << 2 ? Container::aac : Container::unknown;
  const bool is_frame = (second & 0x18) != 0x08 && (second & 0x06) != 0 && (third & 0xf0) != 0xf0 &&
                        (third & 0xf0) != 0 && (third & 0x0c) != 0x0c;
  return is_frame ? Container::mpeg_audio : Container::unknown;
}

}  // namespace

Container recognize_container(std::span<const std::byte> first_bytes) {
  for (const Magic& magic : magics) {
    if (first_bytes.size() < magic.offset + magic.bytes.size()) continue;
    const auto place = first_bytes.subspan(magic.offset, magic.bytes.size());
    const auto same = [](std::byte byte, char c) { return byte == static_cast<std::byte>(c); };
    if (std::ranges::equal(place, magic.bytes, same)) return magic.container;
  }
  return recognize_frame(first_bytes);
}

std::string_view describe(Container container) {
  switch (container) {
    case Container::wav:
      return "a WAV stream";
    case Container::ogg:
      return "an Ogg stream";
    case Container::matroska:
      return "a WebM or Matroska stream";
    case Container::mpeg_audio:
      return "an MP3 stream";
    case Container::aac:
      return "an AAC (ADTS) stream";
    case Container::flac:
      return "a FLAC stream";
    case Container::mp4:
      return "an MP4 (M4A) stream";
    case Container::aiff:
      return "an AIFF stream";
    case Container::amr:
      return "an AMR stream";
    case Container::caf:
      return "a CAF stream";
    case Container::unknown:
      break;
  }
  return "of an unknown format";
}

bool is_read(Container container) {
  return container == Container::wav || container == Container::ogg || container == Container::matroska;
}

}  // namespace tutti
