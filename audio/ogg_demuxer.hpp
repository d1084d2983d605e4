#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "audio/opus_demuxer.hpp"

namespace tutti {

/// Ogg with Opus (RFC 3533, RFC 7845): the first Opus stream of the file, and of each that is chained to it.
/// Granule positions say what is missing where pages were lost, and what to leave out at the end of a stream.
class OggDemuxer final : public OpusDemuxer {
 public:
  OggDemuxer();
  ~OggDemuxer() override;

  [[nodiscard]] Result<bool> next(std::span<const std::byte>& bytes, PlacedPacket& packet) override;

 private:
  struct Libogg;
  struct Page;
  struct Entry {
    PlacedPacket packet;
    int64_t samples;
  };
  enum class Stage { begin, comments, audio, end };

  /// A page, when there is one in what was taken.
  [[nodiscard]] Result<bool> read_page(std::span<const std::byte>& bytes);
  [[nodiscard]] Result<void> on_page(Page& page);
  [[nodiscard]] Result<void> on_first_page(Page& page);
  [[nodiscard]] Result<void> on_audio_page(Page& page);
  [[nodiscard]] Result<void> collect_packets();
  void place_packets(int64_t granule, bool ends_stream);
  [[nodiscard]] int64_t byte_position() const;

  std::unique_ptr<Libogg> ogg_;
  Stage stage_ = Stage::begin;
  std::string other_codec_;          // of a stream that is not Opus
  std::optional<OpusHead> head_;     // of a stream whose first packet is not handed out yet
  std::optional<int64_t> position_;  // at 48 kHz on the stream's clock; none before its first page of audio
  std::deque<Entry> entries_;        // of one page
  int64_t taken_ = 0;                // bytes
  int64_t page_bytes_in_all_ = 0;    // of them in pages
  int64_t packets_ = 0;              // of audio
};

}  // namespace tutti
