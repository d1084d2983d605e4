#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "audio/opus_demuxer.hpp"

namespace tutti {

/// WebM (or Matroska) with Opus, as MediaRecorder and others write it: its segment and clusters may be of
/// unknown size, and another file may follow. The first Opus track is read. Block times say what is missing,
/// to a millisecond.
class WebmDemuxer final : public OpusDemuxer {
 public:
  WebmDemuxer();
  ~WebmDemuxer() override;

  [[nodiscard]] Result<bool> next(std::span<const std::byte>& bytes, PlacedPacket& packet) override;

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace tutti
