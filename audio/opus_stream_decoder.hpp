#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "audio/audio_decoder.hpp"
#include "audio/opus_demuxer.hpp"
#include "audio/opus_packet_decoder.hpp"

namespace tutti {

/// The packets of a demuxer as samples, and something in the place of those that are missing.
class OpusStreamDecoder final : public AudioDecoder {
 public:
  explicit OpusStreamDecoder(std::unique_ptr<OpusDemuxer> demuxer) : demuxer_(std::move(demuxer)) {}

  [[nodiscard]] Result<void> decode(std::span<const std::byte>& bytes, std::vector<float>& out) override;
  [[nodiscard]] bool has_more() const override { return has_more_; }
  [[nodiscard]] int sample_rate() const override { return OpusPacketDecoder::sample_rate; }

 private:
  std::unique_ptr<OpusDemuxer> demuxer_;
  OpusPacketDecoder decoder_;
  std::optional<PlacedPacket> packet_;  // waits for what is missing before it
  int64_t packets_ = 0;
  bool has_more_ = false;
};

}  // namespace tutti
