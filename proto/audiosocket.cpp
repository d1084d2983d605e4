#include "proto/audiosocket.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/uuid.hpp"

namespace tutti::proto {
namespace {

constexpr int the_track = 0;
constexpr std::array rates = {8000, 12000, 16000, 24000, 32000, 44100, 48000, 96000, 192000};

class AudioSocketDialect final : public Dialect {
 public:
  [[nodiscard]] bool is_heard_elsewhere() const override { return true; }
  void on_text(std::string_view /*message*/, Actions& actions) override {
    actions.emplace_back(Ignored{{"bad_message", "AudioSocket has no text"}});
  }
  void on_binary(std::span<const std::byte> bytes, bool /*ends_message*/, Actions& actions) override {
    parser_.feed(bytes, [&](const AudioSocketParser::Piece& piece) { on_piece(piece, actions); });
  }
  void on_event(int /*track*/, const ServerEvent& event, Actions& actions) override {
    if (const auto* failed = std::get_if<ErrorEvent>(&event)) {
      actions.emplace_back(Close{close_reason(failed->error.code), failed->error.message});
    } else if (std::holds_alternative<Done>(event)) {
      actions.emplace_back(end_.value_or(Close{}));
    }
  }
  void on_fault(const Error& /*error*/, Actions& /*actions*/) override {}

 private:
  void on_piece(const AudioSocketParser::Piece& piece, Actions& actions);
  void on_audio(int rate, const AudioSocketParser::Piece& piece, Actions& actions);
  void on_uuid(const AudioSocketParser::Piece& piece, Actions& actions);
  /// Nothing after this has an effect; what was said before is recognized to its end.
  void end(Close close, Actions& actions);
  void refuse(std::string code, std::string message, Actions& actions) {
    end({.code = CloseReason::policy, .message = std::move(message), .error_code = std::move(code)}, actions);
  }

  AudioSocketParser parser_;
  std::vector<std::byte> uuid_;
  int rate_ = 0;  // of the track; 0 before there is one
  std::optional<Close> end_;
};

void AudioSocketDialect::on_piece(const AudioSocketParser::Piece& piece, Actions& actions) {
  if (end_) return;
  if (const int rate = audiosocket_rate(piece.kind); rate != 0) return on_audio(rate, piece, actions);
  switch (piece.kind) {
    case AudioSocketKind::uuid:
      return on_uuid(piece, actions);
    case AudioSocketKind::dtmf:
      return;
    case AudioSocketKind::hangup:
    case AudioSocketKind::error:  // what went wrong there, this side cannot mend
      if (piece.ends_frame) end({}, actions);
      return;
    default:
      refuse(
          "bad_message",
          fmt::format("0x{:02x} is no kind of AudioSocket frame; there are 0x00 (hang-up), 0x01 (UUID), 0x03 "
                      "(DTMF), 0x10 to 0x18 (audio) and 0xff (error)",
                      static_cast<int>(piece.kind)),
          actions);
  }
}

void AudioSocketDialect::on_audio(int rate, const AudioSocketParser::Piece& piece, Actions& actions) {
  if (piece.frame_bytes % 2 != 0) {
    return refuse("bad_message",
                  fmt::format("an audio frame has {} bytes; samples have 2", piece.frame_bytes), actions);
  }
  if (rate_ == 0) {
    rate_ = rate;
    StreamRequest request;
    request.sample_rate = rate;
    actions.emplace_back(OpenTrack{the_track, request});
  }
  if (rate != rate_) {
    return refuse("bad_sample_rate",
                  fmt::format("the call began with {} Hz and went on with {} Hz", rate_, rate), actions);
  }
  if (!piece.bytes.empty()) {
    actions.emplace_back(TrackAudio{the_track, {piece.bytes.begin(), piece.bytes.end()}});
  }
}

void AudioSocketDialect::on_uuid(const AudioSocketParser::Piece& piece, Actions& actions) {
  if (piece.frame_bytes != uuid_bytes) {
    return refuse("bad_message", fmt::format("a UUID has {} bytes, not {}", uuid_bytes, piece.frame_bytes),
                  actions);
  }
  if (uuid_.size() == uuid_bytes) return;  // a call has one
  uuid_.insert(uuid_.end(), piece.bytes.begin(), piece.bytes.end());
  if (piece.ends_frame) actions.emplace_back(Announce{write_uuid(std::span(uuid_).first<uuid_bytes>())});
}

void AudioSocketDialect::end(Close close, Actions& actions) {
  end_ = std::move(close);
  if (rate_ == 0) {
    actions.emplace_back(*end_);
  } else {
    actions.emplace_back(EndTrack{the_track});
  }
}

}  // namespace

int audiosocket_rate(AudioSocketKind kind) {
  const auto index = static_cast<size_t>(kind) - static_cast<size_t>(AudioSocketKind::audio);
  return index < rates.size() ? rates[index] : 0;
}

void AudioSocketParser::feed(std::span<const std::byte> bytes,
                             const std::function<void(const Piece& piece)>& on_piece) {
  while (!bytes.empty()) {
    if (header_bytes_ < header_.size()) {
      header_[header_bytes_++] = std::to_integer<uint8_t>(bytes.front());
      bytes = bytes.subspan(1);
      if (header_bytes_ < header_.size()) continue;
      left_ = frame_bytes_ = size_t{header_[1]} << 8U | header_[2];
      if (left_ > 0) continue;
    }
    const auto piece = bytes.first(std::min(left_, bytes.size()));
    bytes = bytes.subspan(piece.size());
    left_ -= piece.size();
    if (left_ == 0) header_bytes_ = 0;
    on_piece({.kind = static_cast<AudioSocketKind>(header_[0]),
              .frame_bytes = frame_bytes_,
              .bytes = piece,
              .ends_frame = left_ == 0});
  }
}

std::unique_ptr<Dialect> make_audiosocket() { return std::make_unique<AudioSocketDialect>(); }

}  // namespace tutti::proto
