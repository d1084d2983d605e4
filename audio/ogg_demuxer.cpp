#include "audio/ogg_demuxer.hpp"

#include <fmt/format.h>
#include <ogg/ogg.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace tutti {
namespace {

// libogg holds at most this and one page.
constexpr size_t bytes_at_a_time = 4096;
// That are of no page, in all: to look for one among them costs up to the checksum of 64 KiB for each 27.
constexpr int64_t most_lost_bytes = 128 << 10;
// Beyond this a granule position is no time.
constexpr int64_t last_granule = int64_t{1} << 60;

struct Codec {
  std::string_view magic;
  std::string_view name;
};
constexpr std::array codecs = {
    Codec{"\001vorbis", "Vorbis"},       Codec{"\177FLAC", "FLAC"},      Codec{"Speex   ", "Speex"},
    Codec{"\200theora", "Theora video"}, Codec{"fishead", "a skeleton"},
};

std::string codec_name(std::span<const std::byte> body) {
  const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
  const auto* const known =
      std::ranges::find_if(codecs, [&](const Codec& codec) { return text.starts_with(codec.magic); });
  return std::string(known == codecs.end() ? "an unknown codec" : known->name);
}

}  // namespace

struct OggDemuxer::Page {
  ogg_page page{};

  [[nodiscard]] std::span<const std::byte> body() const {
    return {reinterpret_cast<const std::byte*>(page.body), static_cast<size_t>(page.body_len)};
  }
};

struct OggDemuxer::Libogg {
  Libogg() {
    ogg_sync_init(&sync);
    if (ogg_stream_init(&stream, 0) != 0) throw std::bad_alloc();
  }
  Libogg(const Libogg&) = delete;
  Libogg& operator=(const Libogg&) = delete;
  ~Libogg() {
    ogg_stream_clear(&stream);
    ogg_sync_clear(&sync);
  }

  ogg_sync_state sync{};
  ogg_stream_state stream{};
};

OggDemuxer::OggDemuxer() : ogg_(std::make_unique<Libogg>()) {}
OggDemuxer::~OggDemuxer() = default;

Result<bool> OggDemuxer::next(std::span<const std::byte>& bytes, PlacedPacket& packet) {
  while (entries_.empty()) {
    const auto has_page = read_page(bytes);
    if (!has_page) return tl::unexpected(has_page.error());
    if (!*has_page) return false;
  }
  packet = std::move(entries_.front().packet);
  packet.begins = std::exchange(head_, std::nullopt);
  entries_.pop_front();
  return true;
}

Result<bool> OggDemuxer::read_page(std::span<const std::byte>& bytes) {
  while (true) {
    Page page;
    const int found = ogg_sync_pageout(&ogg_->sync, &page.page);
    if (found > 0) {
      page_bytes_in_all_ += page.page.header_len + page.page.body_len;
      if (auto read = on_page(page); !read) return tl::unexpected(read.error());
      return true;
    }
    if (byte_position() - page_bytes_in_all_ > most_lost_bytes) {
      return fail("bad_audio",
                  fmt::format("before byte {}, {} bytes of the Ogg stream are of no page that is whole",
                              byte_position(), byte_position() - page_bytes_in_all_));
    }
    if (found < 0) continue;
    if (bytes.empty()) return false;
    const auto piece = bytes.first(std::min(bytes.size(), bytes_at_a_time));
    char* const buffer = ogg_sync_buffer(&ogg_->sync, static_cast<long>(piece.size()));
    if (buffer == nullptr) throw std::bad_alloc();
    std::memcpy(buffer, piece.data(), piece.size());
    ogg_sync_wrote(&ogg_->sync, static_cast<long>(piece.size()));
    taken_ += static_cast<int64_t>(piece.size());
    bytes = bytes.subspan(piece.size());
  }
}

int64_t OggDemuxer::byte_position() const { return taken_ - (ogg_->sync.fill - ogg_->sync.returned); }

Result<void> OggDemuxer::on_page(Page& page) {
  if (ogg_page_bos(&page.page) != 0) return on_first_page(page);
  if (stage_ == Stage::begin) {
    return fail("bad_audio", fmt::format("the Ogg stream holds {}; accepted is Ogg with Opus",
                                         other_codec_.empty() ? "no first page" : other_codec_));
  }
  if (stage_ == Stage::end || ogg_page_serialno(&page.page) != ogg_->stream.serialno) return {};
  // The comments end with a page. They may be megabytes, of pictures.
  if (stage_ == Stage::comments) {
    if (ogg_page_packets(&page.page) > 0) stage_ = Stage::audio;
    return {};
  }
  return on_audio_page(page);
}

Result<void> OggDemuxer::on_first_page(Page& page) {
  const auto body = page.body();
  if (!begins_opus_head(body)) {
    // Beside the stream that is read, or in the place of the next.
    if (stage_ != Stage::comments) stage_ = Stage::begin;
    other_codec_ = codec_name(body);
    return {};
  }
  if (stage_ == Stage::comments) return {};  // a second one in parallel
  const auto head = parse_opus_head(body);
  if (!head) return tl::unexpected(head.error());
  head_ = *head;
  position_.reset();
  stage_ = Stage::comments;
  ogg_stream_reset_serialno(&ogg_->stream, ogg_page_serialno(&page.page));
  return {};
}

Result<void> OggDemuxer::on_audio_page(Page& page) {
  const bool ends_stream = ogg_page_eos(&page.page) != 0;
  const int64_t granule = ogg_page_granulepos(&page.page);
  ogg_stream_pagein(&ogg_->stream, &page.page);
  if (auto collected = collect_packets(); !collected) return collected;
  if (!entries_.empty()) place_packets(granule, ends_stream);
  // What a packet that goes on and on has so far.
  if (static_cast<size_t>(ogg_->stream.body_fill - ogg_->stream.body_returned) > max_opus_packet_bytes) {
    return fail("bad_audio",
                fmt::format("packet {} of the Ogg stream (before byte {}) has more than the {} bytes "
                            "that an Opus packet may have",
                            packets_, byte_position(), max_opus_packet_bytes));
  }
  if (ends_stream) stage_ = Stage::end;
  return {};
}

Result<void> OggDemuxer::collect_packets() {
  ogg_packet packet;
  for (int found = 0; (found = ogg_stream_packetout(&ogg_->stream, &packet)) != 0;) {
    if (found < 0 || packet.bytes == 0) continue;  // a gap, or a packet that is empty: both show in the clock
    const std::span bytes(reinterpret_cast<const std::byte*>(packet.packet),
                          static_cast<size_t>(packet.bytes));
    const int samples = bytes.size() > max_opus_packet_bytes ? 0 : opus_packet_samples(bytes);
    if (samples == 0) {
      return fail("bad_audio", fmt::format("packet {} of the Ogg stream (before byte {}) is no Opus packet",
                                           packets_, byte_position()));
    }
    entries_.push_back({.packet = {.bytes = {bytes.begin(), bytes.end()}}, .samples = samples});
    ++packets_;
  }
  return {};
}

/// `granule` is the position of the page's last sample. A stream may have begun before its first page.
void OggDemuxer::place_packets(int64_t granule, bool ends_stream) {
  int64_t total = 0;
  for (const Entry& entry : entries_) total += entry.samples;
  const int64_t begin = position_.value_or(std::clamp<int64_t>(granule - total, 0, last_granule));
  position_ = begin + total;
  if (granule < 0 || granule > last_granule) return;  // not told

  const int64_t excess = begin + total - granule;
  if (ends_stream && excess > 0) {
    int64_t left = std::min(excess, total);
    for (auto entry = entries_.rbegin(); entry != entries_.rend() && left > 0; ++entry) {
      entry->packet.discarded = std::min(left, entry->samples);
      left -= entry->packet.discarded;
    }
  } else if (excess < -gap_tolerance) {
    entries_.front().packet.lost = std::min(-excess, longest_fill);
    position_ = granule;
  } else if (excess > gap_tolerance) {
    position_ = granule;  // the clock was set back
  }
}

}  // namespace tutti
