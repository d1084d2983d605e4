#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "config/result.hpp"

namespace tutti {

/// Opus counts time at 48 kHz, whatever it was made of (RFC 7845 section 4).
inline constexpr int opus_clock_rate = 48000;

/// The longest packet is taken to be as long as RFC 7845 (section 6) lets a reader take it.
inline constexpr size_t max_opus_packet_bytes = 61'440;

/// The identification header of a stream: RFC 7845 section 5.1.
struct OpusHead {
  int channels = 1;  ///< 1 or 2
  int pre_skip = 0;  ///< samples of the decoder's output, at 48 kHz, that come before the first of the audio
  int gain = 0;      ///< to be applied to the output, in 1/256 dB
};

/// Fails with "bad_audio" where the header is none, of a later version, or of more than two channels (a
/// channel mapping family other than 0).
[[nodiscard]] Result<OpusHead> parse_opus_head(std::span<const std::byte> bytes);

/// Whether the bytes begin as such a header does.
[[nodiscard]] bool begins_opus_head(std::span<const std::byte> bytes);

/// Samples that a packet of at least one byte decodes to, at 48 kHz: at most 120 ms of them. 0 when it is no
/// packet.
[[nodiscard]] int opus_packet_samples(std::span<const std::byte> packet);

}  // namespace tutti
