#include "proto/twilio.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "audio/resampler.hpp"
#include "config/utf8.hpp"
#include "proto/base64.hpp"
#include "proto/json_message.hpp"
#include "proto/media_order.hpp"
#include "proto/parameter.hpp"

namespace tutti::proto {
namespace {

using simdjson::dom::object;

constexpr size_t max_message_bytes = 1U << 20U;
constexpr size_t max_name_bytes = 256;

struct FormatName {
  std::string_view name;
  Encoding encoding;
};
constexpr std::array format_names = {
    FormatName{"audio/x-mulaw", Encoding::mulaw},   FormatName{"PCMU", Encoding::mulaw},
    FormatName{"audio/x-alaw", Encoding::alaw},     FormatName{"PCMA", Encoding::alaw},
    FormatName{"audio/x-l16", Encoding::pcm_s16le}, FormatName{"audio/x-raw", Encoding::pcm_s16le},
};
constexpr std::string_view accepted_formats =
    "audio/x-mulaw, audio/x-alaw, audio/x-l16, audio/x-raw, PCMU and PCMA";

/// The providers agree on the members, but not on how their names are written.
struct Name {
  std::string_view camel;
  std::string_view snake;
};
constexpr Name media_format{"mediaFormat", "media_format"};
constexpr Name sample_rate{"sampleRate", "sample_rate"};

/// A number, or its text.
std::optional<int64_t> count_in(const object& from, std::string_view name) {
  if (const auto number = integer_in(from, name)) return number;
  const auto text = string_in(from, name);
  const auto number = text ? parse_int(*text) : std::nullopt;
  return number ? std::optional<int64_t>(*number) : std::nullopt;
}

std::optional<object> object_in(const object& from, Name name) {
  const auto found = proto::object_in(from, name.camel);
  return found ? found : proto::object_in(from, name.snake);
}

std::optional<int64_t> count_in(const object& from, Name name) {
  const auto found = count_in(from, name.camel);
  return found ? found : count_in(from, name.snake);
}

/// What the stream and its call are called, each in one of the places for it.
void announce_names(const object& message, const object& start, Actions& actions) {
  const auto announce = [&](std::initializer_list<std::string_view> members) {
    for (const object& from : {message, start}) {
      for (const std::string_view member : members) {
        const auto name = string_in(from, member);
        if (!name || name->empty()) continue;
        actions.emplace_back(Announce{utf8_prefix(*name, max_name_bytes)});
        return;
      }
    }
  };
  announce({"streamSid", "stream_sid", "stream_id", "streamId"});
  announce({"callSid", "call_sid", "call_control_id", "callId"});
}

class TwilioDialect final : public Dialect {
 public:
  [[nodiscard]] bool has_audio_in_text() const override { return true; }
  [[nodiscard]] bool is_heard_elsewhere() const override { return true; }
  void on_text(std::string_view message, Actions& actions) override;
  void on_binary(std::span<const std::byte> /*bytes*/, bool ends_message, Actions& actions) override {
    if (ends_message) ignore("bad_message", "audio comes in media messages, not in binary ones", actions);
  }
  void on_event(int track, const ServerEvent& event, Actions& actions) override;
  void on_fault(const Error& /*error*/, Actions& /*actions*/) override {}

 private:
  struct Track {
    std::string name;
    MediaOrder order;
    bool done = false;
  };

  static void ignore(std::string code, std::string message, Actions& actions) {
    actions.emplace_back(Ignored{{std::move(code), std::move(message)}});
  }
  void on_start(const object& message, Actions& actions);
  void on_media(const object& message, Actions& actions);
  void on_stop(Actions& actions);
  void close_when_done(Actions& actions) const;
  /// Null when there are as many as there can be.
  Track* find_or_open(std::string_view name, Actions& actions);
  [[nodiscard]] int index(const Track& track) const { return static_cast<int>(&track - tracks_.data()); }
  static void send(int track, std::vector<std::byte> audio, Actions& actions) {
    if (!audio.empty()) actions.emplace_back(TrackAudio{.track = track, .bytes = std::move(audio)});
  }

  std::optional<StreamRequest> request_;  // once the call has begun
  std::vector<Track> tracks_;
  bool stopped_ = false;
};

void TwilioDialect::on_text(std::string_view message, Actions& actions) {
  const auto json = JsonMessage::parse(message, max_message_bytes);
  if (!json) {
    actions.emplace_back(Ignored{json.error()});
    return;
  }
  const auto event = string_in(json->object(), "event");
  if (!event) return ignore("bad_message", "the message has no \"event\"", actions);
  if (*event == "media") return on_media(json->object(), actions);
  if (*event == "start") return on_start(json->object(), actions);
  if (*event == "stop") return on_stop(actions);
  // connected, dtmf, mark, error and what else there may be say nothing about the audio.
}

void TwilioDialect::on_start(const object& message, Actions& actions) {
  if (request_) return ignore("bad_message", "the stream has been started before", actions);
  const object start = proto::object_in(message, "start").value_or(message);
  StreamRequest request;
  request.format.encoding = Encoding::mulaw;
  request.sample_rate = 8000;
  if (const auto format = object_in(start, media_format)) {
    const auto name = string_in(*format, "encoding").value_or(format_names[0].name);
    const auto* const known = std::ranges::find(format_names, name, &FormatName::name);
    const auto rate = count_in(*format, sample_rate).value_or(request.sample_rate);
    if (known == format_names.end() || rate < min_sample_rate || rate > max_sample_rate) {
      actions.emplace_back(
          Close{.code = CloseReason::policy,
                .message = fmt::format("the media format is {} at {} Hz; accepted are {} from {} Hz",
                                       shown(name), rate, accepted_formats, min_sample_rate),
                .error_code = "bad_encoding"});
      return;
    }
    request.format.encoding = known->encoding;
    request.sample_rate = static_cast<int>(rate);
  }
  request_ = request;
  announce_names(message, start, actions);
}

void TwilioDialect::on_media(const object& message, Actions& actions) {
  const auto media = proto::object_in(message, "media");
  const auto payload = media ? string_in(*media, "payload") : std::nullopt;
  if (!payload) return ignore("bad_message", "a media message has media.payload", actions);
  if (!request_ || stopped_) return ignore("bad_message", "media comes between start and stop", actions);
  auto bytes = decode_base64(*payload);
  if (!bytes) return ignore("bad_message", "media.payload is not base64", actions);
  Track* const track = find_or_open(string_in(*media, "track").value_or("inbound"), actions);
  if (track == nullptr) return ignore("too_many_tracks", "the call has too many tracks", actions);
  const bool is_new = track->order.push({.number = count_in(*media, "chunk"),
                                         .timestamp_ms = count_in(*media, "timestamp"),
                                         .payload = std::move(*bytes)});
  if (!is_new) ignore("late", "the media frame is late, or came before", actions);
  send(index(*track), track->order.take(), actions);
}

TwilioDialect::Track* TwilioDialect::find_or_open(std::string_view name, Actions& actions) {
  const auto found = std::ranges::find(tracks_, name, &Track::name);
  if (found != tracks_.end()) return &*found;
  if (tracks_.size() == max_tracks || name.size() > max_name_bytes) return nullptr;
  tracks_.push_back({.name = std::string(name),
                     .order = MediaOrder(request_->format.encoding, request_->sample_rate),
                     .done = false});
  actions.emplace_back(
      OpenTrack{.track = index(tracks_.back()), .request = *request_, .label = std::string(name)});
  return &tracks_.back();
}

void TwilioDialect::on_stop(Actions& actions) {
  if (std::exchange(stopped_, true)) return;
  for (Track& track : tracks_) {
    send(index(track), track.order.flush(), actions);
    actions.emplace_back(EndTrack{index(track)});
  }
  close_when_done(actions);
}

void TwilioDialect::on_event(int index, const ServerEvent& event, Actions& actions) {
  if (const auto* failed = std::get_if<ErrorEvent>(&event)) {
    actions.emplace_back(Close{close_reason(failed->error.code), failed->error.message});
    return;
  }
  if (!std::holds_alternative<Done>(event)) return;
  tracks_[static_cast<size_t>(index)].done = true;
  close_when_done(actions);
}

void TwilioDialect::close_when_done(Actions& actions) const {
  if (stopped_ && std::ranges::all_of(tracks_, &Track::done)) actions.emplace_back(Close{});
}

}  // namespace

Acceptance accept_twilio(const Handshake& /*handshake*/) {
  return Accepted{.dialect = std::make_unique<TwilioDialect>(), .subprotocol = {}, .headers = {}};
}

}  // namespace tutti::proto
