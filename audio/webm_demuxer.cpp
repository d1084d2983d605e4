#include "audio/webm_demuxer.hpp"

#include <fmt/format.h>
#include <webm/callback.h>
#include <webm/webm_parser.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "audio/webm_timeline.hpp"

namespace tutti {
namespace {

using webm::Id;
using webm::Status;

// libwebm keeps what it reads of an element whole, and of a cluster the header of each block.
constexpr uint64_t longest_value = 4096;
// Of the names of codecs, in a message.
constexpr size_t longest_list = 60;
// 40 s of 5 ms each: the times of a cluster's blocks fit into 16 bits of milliseconds.
constexpr int most_blocks_in_cluster = 8192;

// libwebm gets so many at a time: what it finds in them has to be kept.
constexpr size_t bytes_at_a_time = 4096;

const Status done(Status::kOkCompleted);
const Status failed(1);

// What the packets and their times are found by. All else is skipped.
constexpr std::array known = {Id::kEbml,          Id::kDocType,        Id::kSegment,    Id::kInfo,
                              Id::kTimecodeScale, Id::kTracks,         Id::kTrackEntry, Id::kCodecId,
                              Id::kTrackNumber,   Id::kCodecPrivate,   Id::kCluster,    Id::kTimecode,
                              Id::kBlock,         Id::kDiscardPadding, Id::kBlockGroup, Id::kSimpleBlock};
// Which hold others.
constexpr std::array masters = {Id::kEbml,       Id::kSegment, Id::kInfo,      Id::kTracks,
                                Id::kTrackEntry, Id::kCluster, Id::kBlockGroup};
// Which libwebm has whole before it tells of them.
constexpr std::array values = {Id::kDocType,      Id::kTimecodeScale, Id::kCodecId,       Id::kTrackNumber,
                               Id::kCodecPrivate, Id::kTimecode,      Id::kDiscardPadding};

// An element's name says by its first byte how long it is; one of 0 in the first four bits is none.
constexpr size_t longest_name = 4;
size_t name_length(std::byte first) {
  const auto zeros = static_cast<size_t>(std::countl_zero(std::to_integer<uint8_t>(first)));
  return zeros < longest_name ? zeros + 1 : 1;
}

bool is_one_of(std::span<const Id> ids, Id id) { return std::ranges::find(ids, id) != ids.end(); }

/// A codec's name is the client's.
std::string shown_codec(const std::string& id) {
  const bool is_printable = std::ranges::all_of(id, [](char c) { return c >= ' ' && c <= '~'; });
  return is_printable && !id.empty() && id.size() < longest_list ? id : "an unknown codec";
}

std::string_view reason_of(const Status& status) {
  switch (status.code) {
    case Status::kInvalidElementId:
      return "an element's name is none";
    case Status::kInvalidElementSize:
      return "an element's size is none";
    case Status::kIndefiniteUnknownElement:
      return "an unknown element has no size";
    case Status::kElementOverflow:
      return "an element ends after that which it is in";
    case Status::kNotEnoughMemory:
      return "an element is too large";
    default:
      return "an element's value is none";
  }
}

}  // namespace

/// libwebm calls the reader for bytes, and the callback with what they say.
class WebmDemuxer::Parser final : private webm::Callback, private webm::Reader {
 public:
  Result<bool> next(std::span<const std::byte>& bytes, PlacedPacket& packet);

 private:
  Status Read(size_t count, uint8_t* buffer, uint64_t* read) override;
  Status Skip(uint64_t count, uint64_t* skipped) override;
  [[nodiscard]] uint64_t Position() const override { return position_; }

  Status OnElementBegin(const webm::ElementMetadata& element, webm::Action* action) override;
  Status OnEbml(const webm::ElementMetadata& element, const webm::Ebml& ebml) override;
  Status OnInfo(const webm::ElementMetadata& element, const webm::Info& info) override;
  Status OnTrackEntry(const webm::ElementMetadata& element, const webm::TrackEntry& track) override;
  Status OnClusterBegin(const webm::ElementMetadata& element, const webm::Cluster& cluster,
                        webm::Action* action) override;
  Status OnSimpleBlockBegin(const webm::ElementMetadata& /*element*/, const webm::SimpleBlock& block,
                            webm::Action* action) override {
    return on_block(block, action);
  }
  Status OnBlockBegin(const webm::ElementMetadata& /*element*/, const webm::Block& block,
                      webm::Action* action) override {
    return on_block(block, action);
  }
  Status OnFrame(const webm::FrameMetadata& frame, webm::Reader* reader, uint64_t* remaining) override;
  Status OnBlockGroupEnd(const webm::ElementMetadata& element, const webm::BlockGroup& group) override;

  Status on_block(const webm::Block& block, webm::Action* action);
  Status on_packet(uint64_t position);
  Status refuse(Error reason);
  Status refuse(std::string message) { return refuse(Error{"bad_audio", std::move(message)}); }
  [[nodiscard]] bool has_packet() const { return packets_.size() > (holds_last_ ? 1U : 0U); }

  void give(std::span<const std::byte> bytes);
  [[nodiscard]] bool has_half_a_name() const;

  webm::WebmParser parser_;
  WebmTimeline timeline_;
  std::vector<std::byte> buffer_;     // what libwebm was given last
  std::span<const std::byte> input_;  // what it has not read of it
  uint64_t position_ = 0;             // of the input, in bytes
  bool expects_name_ = true;          // next, from body_end_ on
  uint64_t body_end_ = 0;
  std::optional<Error> failure_;

  std::optional<uint64_t> track_;   // the Opus track's number
  std::string other_codecs_;        // of tracks before it
  std::optional<OpusHead> begins_;  // of a file whose first packet is still to come
  int cluster_blocks_ = 0;
  bool in_group_ = false;
  bool holds_last_ = false;  // the last packet waits for the end of its group, which may say what to discard

  std::vector<std::byte> frame_;  // what there is of the next packet
  int64_t lost_ = 0;              // before it
  std::deque<PlacedPacket> packets_;
  int64_t packet_count_ = 0;
};

Result<bool> WebmDemuxer::Parser::next(std::span<const std::byte>& bytes, PlacedPacket& packet) {
  while (!has_packet()) {
    if (failure_) return tl::unexpected(*failure_);
    if (bytes.empty()) return false;
    const size_t given = std::min(bytes.size(), bytes_at_a_time);
    give(bytes.first(given));
    bytes = bytes.subspan(given);
    while (!failure_ && !input_.empty() && !has_half_a_name()) {
      const size_t left = input_.size();
      const Status status = parser_.Feed(this, this);
      if (!failure_ && (status.is_parsing_error() || input_.size() == left)) {
        refuse(fmt::format("{} in the WebM stream before byte {}", reason_of(status), position_));
      }
    }
  }
  packet = std::move(packets_.front());
  packets_.pop_front();
  return true;
}

void WebmDemuxer::Parser::give(std::span<const std::byte> bytes) {
  buffer_.erase(buffer_.begin(), buffer_.end() - static_cast<ptrdiff_t>(input_.size()));
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  input_ = buffer_;
}

// libwebm ends the process (an assertion) when it is given a name in two parts and what it is in ends between
// them. So it gets a name as a whole.
bool WebmDemuxer::Parser::has_half_a_name() const {
  return expects_name_ && position_ >= body_end_ && input_.size() < name_length(input_.front());
}

Status WebmDemuxer::Parser::Read(size_t count, uint8_t* buffer, uint64_t* read) {
  if (!input_.empty() && has_half_a_name()) {
    *read = 0;
    return Status(Status::kWouldBlock);
  }
  if (!input_.empty() && position_ >= body_end_) expects_name_ = false;
  const size_t size = std::min(count, input_.size());
  if (size > 0) std::memcpy(buffer, input_.data(), size);
  return Skip(count, read);
}

Status WebmDemuxer::Parser::Skip(uint64_t count, uint64_t* skipped) {
  *skipped = std::min<uint64_t>(count, input_.size());
  input_ = input_.subspan(*skipped);
  position_ += *skipped;
  if (*skipped == count) return done;
  return Status(*skipped > 0 ? Status::kOkPartial : Status::kWouldBlock);
}

Status WebmDemuxer::Parser::OnElementBegin(const webm::ElementMetadata& element, webm::Action* action) {
  *action = is_one_of(known, element.id) ? webm::Action::kRead : webm::Action::kSkip;
  expects_name_ = true;
  body_end_ = element.position + element.header_size + (is_one_of(masters, element.id) ? 0 : element.size);
  if (element.id == Id::kCluster) cluster_blocks_ = 0;
  if (element.id == Id::kBlockGroup) in_group_ = true;
  if (element.id == Id::kContentEncodings) {
    return refuse(
        fmt::format("a track of the WebM stream is compressed or encrypted (at byte {})", element.position));
  }
  if (element.size == webm::kUnknownElementSize && element.id != Id::kSegment && element.id != Id::kCluster) {
    return refuse(
        fmt::format("an element of the WebM stream has no size (at byte {}); accepted are segments and "
                    "clusters without",
                    element.position));
  }
  if (is_one_of(values, element.id) && element.size > longest_value) {
    return refuse(fmt::format("an element of the WebM stream has {} bytes (at byte {}); accepted are {}",
                              element.size, element.position, longest_value));
  }
  if ((element.id == Id::kSimpleBlock || element.id == Id::kBlock || element.id == Id::kBlockGroup) &&
      ++cluster_blocks_ > most_blocks_in_cluster) {
    return refuse(fmt::format("a cluster of the WebM stream has more than {} blocks (at byte {})",
                              most_blocks_in_cluster, element.position));
  }
  return done;
}

/// The first of a file.
Status WebmDemuxer::Parser::OnEbml(const webm::ElementMetadata& element, const webm::Ebml& ebml) {
  const std::string& type = ebml.doc_type.value();
  if (type != "webm" && type != "matroska") {
    return refuse(fmt::format("the EBML stream (at byte {}) is neither WebM nor Matroska", element.position));
  }
  track_.reset();
  other_codecs_.clear();
  timeline_.restart();
  return done;
}

Status WebmDemuxer::Parser::OnInfo(const webm::ElementMetadata& /*element*/, const webm::Info& info) {
  const auto scale = timeline_.set_scale(info.timecode_scale.value());
  return scale ? done : refuse(scale.error());
}

Status WebmDemuxer::Parser::OnTrackEntry(const webm::ElementMetadata& /*element*/,
                                         const webm::TrackEntry& track) {
  if (track_) return done;
  if (track.codec_id.value() != "A_OPUS") {
    if (other_codecs_.size() < longest_list) {
      other_codecs_ +=
          fmt::format("{}{}", other_codecs_.empty() ? "" : " and ", shown_codec(track.codec_id.value()));
    }
    return done;
  }
  const auto head = parse_opus_head(std::as_bytes(std::span(track.codec_private.value())));
  if (!head) return refuse(head.error());
  begins_ = *head;
  track_ = track.track_number.value();
  return done;
}

Status WebmDemuxer::Parser::OnClusterBegin(const webm::ElementMetadata& /*element*/,
                                           const webm::Cluster& cluster, webm::Action* /*action*/) {
  if (!track_) {
    return refuse(fmt::format("the WebM stream holds {}; accepted is WebM with Opus (A_OPUS)",
                              other_codecs_.empty() ? "no track" : other_codecs_));
  }
  timeline_.set_cluster(cluster.timecode.value());
  return done;
}

Status WebmDemuxer::Parser::on_block(const webm::Block& block, webm::Action* action) {
  *action = block.track_number == track_ ? webm::Action::kRead : webm::Action::kSkip;
  if (block.track_number != track_) return done;
  const auto lost = timeline_.place_block(block.timecode);
  if (!lost) return refuse(lost.error());
  lost_ += *lost;
  return done;
}

Status WebmDemuxer::Parser::OnFrame(const webm::FrameMetadata& frame, webm::Reader* reader,
                                    uint64_t* remaining) {
  if (frame.size > max_opus_packet_bytes) {
    return refuse(
        fmt::format("packet {} of the WebM stream (at byte {}) has {} bytes; an Opus packet may have {}",
                    packet_count_, frame.position, frame.size, max_opus_packet_bytes));
  }
  while (*remaining > 0) {
    std::array<uint8_t, 1024> piece;
    uint64_t count = 0;
    const Status status = reader->Read(std::min<uint64_t>(*remaining, piece.size()), piece.data(), &count);
    const auto bytes = std::as_bytes(std::span(piece).first(count));
    frame_.insert(frame_.end(), bytes.begin(), bytes.end());
    *remaining -= count;
    if (!status.ok()) return status;
  }
  return frame_.empty() ? done : on_packet(frame.position);
}

Status WebmDemuxer::Parser::on_packet(uint64_t position) {
  const int samples = opus_packet_samples(frame_);
  if (samples == 0) {
    return refuse(
        fmt::format("packet {} of the WebM stream (at byte {}) is no Opus packet", packet_count_, position));
  }
  timeline_.advance(samples);
  ++packet_count_;
  packets_.push_back({.bytes = std::exchange(frame_, {}),
                      .begins = std::exchange(begins_, std::nullopt),
                      .lost = std::exchange(lost_, 0),
                      .discarded = 0});
  holds_last_ = in_group_;
  return done;
}

Status WebmDemuxer::Parser::OnBlockGroupEnd(const webm::ElementMetadata& /*element*/,
                                            const webm::BlockGroup& group) {
  in_group_ = false;
  const int64_t nanoseconds = group.discard_padding.value();
  if (!std::exchange(holds_last_, false) || nanoseconds <= 0) return done;
  const int samples = opus_packet_samples(packets_.back().bytes);
  packets_.back().discarded = WebmTimeline::samples_in(nanoseconds, samples);
  timeline_.advance(-packets_.back().discarded);
  return done;
}

Status WebmDemuxer::Parser::refuse(Error reason) {
  failure_ = std::move(reason);
  return failed;
}

WebmDemuxer::WebmDemuxer() : parser_(std::make_unique<Parser>()) {}
WebmDemuxer::~WebmDemuxer() = default;

Result<bool> WebmDemuxer::next(std::span<const std::byte>& bytes, PlacedPacket& packet) {
  return parser_->next(bytes, packet);
}

}  // namespace tutti
