#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "audio/opus_framing.hpp"
#include "config/utf8.hpp"
#include "proto/json_message.hpp"
#include "proto/parameter.hpp"
#include "proto/query.hpp"
#include "proto/telephony.hpp"

namespace tutti::proto {
namespace {

constexpr int the_track = 0;
// Asterisk's own limit for a message.
constexpr size_t max_message_bytes = 65'500;
constexpr size_t max_name_bytes = 256;
constexpr std::string_view subprotocol = "media";

/// Asterisk's names of formats. Its signed linear audio is in the byte order of its machine; of Opus each
/// message is a packet.
struct Format {
  std::string_view name;
  Encoding encoding;
  int sample_rate;
  AudioCoding coding = AudioCoding::pcm;
};
constexpr std::array formats = {
    Format{"ulaw", Encoding::mulaw, 8000},          Format{"alaw", Encoding::alaw, 8000},
    Format{"slin", Encoding::pcm_s16le, 8000},      Format{"slin12", Encoding::pcm_s16le, 12000},
    Format{"slin16", Encoding::pcm_s16le, 16000},   Format{"slin24", Encoding::pcm_s16le, 24000},
    Format{"slin32", Encoding::pcm_s16le, 32000},   Format{"slin44", Encoding::pcm_s16le, 44100},
    Format{"slin48", Encoding::pcm_s16le, 48000},   Format{"slin96", Encoding::pcm_s16le, 96000},
    Format{"slin192", Encoding::pcm_s16le, 192000}, Format{"opus", {}, 16000, AudioCoding::opus_packets},
};
constexpr std::string_view accepted_formats = "ulaw, alaw, slin, slin12 to slin192 and opus";

/// An event of Asterisk's, however it was written.
struct Event {
  std::string name;
  std::map<std::string, std::string, std::less<>> values;

  [[nodiscard]] std::string_view value(std::string_view key) const {
    const auto found = values.find(key);
    return found == values.end() ? std::string_view() : std::string_view(found->second);
  }
};

/// `NAME key:value key:value`.
Event read_plain(std::string_view text) {
  Event event;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const size_t colon = word.find(':');
    if (event.name.empty()) {
      event.name = word;
    } else if (colon != std::string_view::npos) {
      event.values.emplace(word.substr(0, colon), word.substr(colon + 1));
    }
  }
  return event;
}

Result<Event> read_json(std::string_view text) {
  const auto json = JsonMessage::parse(text, max_message_bytes);
  if (!json) return tl::unexpected(json.error());
  Event event;
  event.name = string_in(json->object(), "event").value_or("");
  for (const std::string_view key : {"format", "channel_id", "channel", "connection_id"}) {
    if (const auto value = string_in(json->object(), key)) event.values.emplace(key, *value);
  }
  return event;
}

Result<Event> read_event(std::string_view text) {
  if (text.size() > max_message_bytes) {
    return fail("bad_message", fmt::format("the message has {} bytes; such a message has at most {}",
                                           text.size(), max_message_bytes));
  }
  return text.starts_with('{') ? read_json(text) : Result<Event>(read_plain(text));
}

class AsteriskDialect final : public Dialect {
 public:
  explicit AsteriskDialect(std::string format) : default_format_(std::move(format)) {}

  [[nodiscard]] bool is_heard_elsewhere() const override { return true; }
  void on_text(std::string_view message, Actions& actions) override;
  void on_binary(std::span<const std::byte> bytes, bool ends_message, Actions& actions) override {
    if (!is_open_) return;
    auto audio = coding_ == AudioCoding::opus_packets ? framer_.add(bytes, ends_message)
                                                      : std::vector<std::byte>(bytes.begin(), bytes.end());
    if (!audio.empty()) actions.emplace_back(TrackAudio{the_track, std::move(audio)});
  }
  // Nothing is sent back: Asterisk takes text for commands.
  void on_event(int /*track*/, const ServerEvent& event, Actions& actions) override {
    if (const auto* failed = std::get_if<ErrorEvent>(&event)) {
      actions.emplace_back(Close{close_reason(failed->error.code), failed->error.message});
    }
  }
  void on_fault(const Error& /*error*/, Actions& /*actions*/) override {}

 private:
  void start(const Event& event, Actions& actions);

  std::string default_format_;  // of the URL: the first versions of MEDIA_START do not say
  AudioCoding coding_ = AudioCoding::pcm;
  OpusFramer framer_;
  bool is_open_ = false;
};

void AsteriskDialect::on_text(std::string_view message, Actions& actions) {
  const auto event = read_event(message);
  if (!event) {
    actions.emplace_back(Ignored{event.error()});
    return;
  }
  // Others tell of keys pressed and of audio that is played, which there is none of.
  if (event->name == "MEDIA_START" && !is_open_) start(*event, actions);
}

void AsteriskDialect::start(const Event& event, Actions& actions) {
  const std::string_view name = event.value("format").empty() ? default_format_ : event.value("format");
  const auto* const format = std::ranges::find(formats, name, &Format::name);
  if (format == formats.end()) {
    actions.emplace_back(
        Close{.code = CloseReason::policy,
              .message = fmt::format("the format is {}; accepted are {}", shown(name), accepted_formats),
              .error_code = "bad_encoding"});
    return;
  }
  // The connection's id is that of a configuration, which calls share.
  for (const std::string_view key : {"channel_id", "channel", "connection_id"}) {
    if (event.value(key).empty()) continue;
    actions.emplace_back(Announce{utf8_prefix(event.value(key), max_name_bytes)});
    break;
  }
  StreamRequest request;
  coding_ = format->coding;
  request.coding = format->coding;
  request.format.encoding = format->encoding;
  request.sample_rate = format->sample_rate;
  actions.emplace_back(OpenTrack{the_track, request});
  is_open_ = true;
}

std::string requested_format(std::string_view query) {
  const auto parameters = parse_query(query);
  if (!parameters) return {};
  const auto found = std::ranges::find(*parameters, "format", &std::pair<std::string, std::string>::first);
  return found == parameters->end() ? std::string() : found->second;
}

}  // namespace

Acceptance accept_asterisk(const Handshake& handshake) {
  const auto offered = handshake.subprotocols();
  const bool has_media = std::ranges::find(offered, subprotocol) != offered.end();
  return Accepted{.dialect = std::make_unique<AsteriskDialect>(requested_format(handshake.query)),
                  .subprotocol = has_media ? std::string(subprotocol) : std::string(),
                  .headers = {}};
}

}  // namespace tutti::proto
