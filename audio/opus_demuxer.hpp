#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "audio/opus_packet.hpp"

namespace tutti {

/// A packet and its place. Counts are of samples at 48 kHz.
struct PlacedPacket {
  std::vector<std::byte> bytes;         ///< at least one
  std::optional<OpusHead> begins = {};  ///< it is the first of a stream
  int64_t lost = 0;                     ///< missing before it: at most OpusDemuxer::longest_fill
  int64_t discarded = 0;                ///< at its end, which are not of the audio
};

/// Takes a byte stream apart into Opus packets. Bounded: it holds at most a page or two. What
/// it finds does not depend on how the bytes are cut. Its input is untrusted.
class OpusDemuxer {
 public:
  /// Timestamps are rounded, and clocks drift: audio is missing when they leave out more than 60 ms.
  static constexpr int64_t gap_tolerance = opus_clock_rate * 60 / 1000;
  /// What is put in for one gap at most, 10 s; what is still missing is left out of the stream's time.
  static constexpr int64_t longest_fill = int64_t{opus_clock_rate} * 10;

  virtual ~OpusDemuxer() = default;

  /// Takes bytes from the front of `bytes` until there is a packet (true) or no bytes are left (false). May
  /// be called without bytes: there can be more than one packet in those taken before. Fails with
  /// "bad_audio", then and from then on: what is wrong, at which byte or packet, and what is accepted.
  [[nodiscard]] virtual Result<bool> next(std::span<const std::byte>& bytes, PlacedPacket& packet) = 0;
};

}  // namespace tutti
