#include "audio/opus_stream_decoder.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tutti {
namespace {

constexpr int64_t clock_ratio = opus_clock_rate / OpusPacketDecoder::sample_rate;
constexpr int64_t piece = OpusPacketDecoder::sample_rate / 10;

}  // namespace

Result<void> OpusStreamDecoder::decode(std::span<const std::byte>& bytes, std::vector<float>& out) {
  const size_t before = out.size();
  // A packet may come to no sample: all of it is pre-skip, or discarded.
  while (out.size() == before) {
    if (!packet_) {
      PlacedPacket next;
      const auto found = demuxer_->next(bytes, next);
      has_more_ = found && *found;
      if (!found) return tl::unexpected(found.error());
      if (!*found) return {};
      packet_ = std::move(next);
    }
    if (const int64_t lost = packet_->lost / clock_ratio; lost > 0) {
      decoder_.conceal(std::min(lost, piece), out);
      packet_->lost -= std::min(lost, piece) * clock_ratio;
      continue;
    }
    if (packet_->begins) decoder_.begin(*packet_->begins);
    if (!decoder_.decode(packet_->bytes, packet_->discarded, out)) {
      return fail("bad_audio", fmt::format("packet {} is no Opus packet", packets_));
    }
    ++packets_;
    packet_.reset();
  }
  return {};
}

}  // namespace tutti
