#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "audio/opus_demuxer.hpp"

namespace tutti {

// Raw Opus packets do not say where they end: the messages that they come in do. On the way to the decoder,
// in a stream of bytes, each is preceded by its length: 16 bits, little endian.

/// Messages to such a stream.
class OpusFramer {
 public:
  /// The part of the byte stream that a part of a message completes: a packet, at the end of a message that
  /// is not empty. Of a message longer than max_opus_packet_bytes only that is passed on, and the reader
  /// fails.
  [[nodiscard]] std::vector<std::byte> add(std::span<const std::byte> bytes, bool ends_message);

 private:
  std::vector<std::byte> frame_;
  bool is_too_long_ = false;
};

/// The packets of such a stream.
class OpusFrameReader final : public OpusDemuxer {
 public:
  [[nodiscard]] Result<bool> next(std::span<const std::byte>& bytes, PlacedPacket& packet) override;

 private:
  std::vector<std::byte> frame_;  // what there is of the length and the packet
  int64_t packets_ = 0;
};

}  // namespace tutti
