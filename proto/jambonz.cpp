#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "audio/resampler.hpp"
#include "config/utf8.hpp"
#include "proto/channel_splitter.hpp"
#include "proto/json_message.hpp"
#include "proto/native.hpp"
#include "proto/parameter.hpp"
#include "proto/query.hpp"
#include "proto/telephony.hpp"

namespace tutti::proto {
namespace {

constexpr size_t max_message_bytes = 64 * 1024;
constexpr size_t max_name_bytes = 256;
constexpr std::array<std::string_view, 3> subprotocols = {"audio.jambonz.org", "audio.drachtio.org",
                                                          "audiostream.drachtio.org"};

struct Media {
  int sample_rate = 8000;
  int channels = 1;  // each of which is a track
};

/// FreeSWITCH passes on whatever JSON it was given, so its URL may say what the audio is.
Result<Media> read_query(std::string_view query) {
  const auto parameters = parse_query(query);
  if (!parameters) return tl::unexpected(parameters.error());
  Media media;
  for (const auto& [name, value] : *parameters) {
    const auto number = parse_int(value).value_or(0);
    if (name == "sample_rate") {
      if (number < min_sample_rate || number > max_sample_rate) {
        return fail("bad_sample_rate",
                    fmt::format("sample_rate is {}; accepted is a whole number of Hz from {} to {}",
                                shown(value), min_sample_rate, max_sample_rate));
      }
      media.sample_rate = number;
    } else if (name == "channels") {
      if (number < 1 || number > 2) {
        return fail("bad_channels", fmt::format("channels is {}; accepted are 1 and 2", shown(value)));
      }
      media.channels = number;
    }
  }
  return media;
}

class JambonzDialect final : public Dialect {
 public:
  explicit JambonzDialect(const Media& media) : media_(media) {}

  // FreeSWITCH hands results on; jambonz does not look at them.
  [[nodiscard]] bool is_heard_elsewhere() const override { return true; }
  void on_text(std::string_view message, Actions& actions) override;
  void on_binary(std::span<const std::byte> bytes, bool ends_message, Actions& actions) override;
  void on_event(int track, const ServerEvent& event, Actions& actions) override;
  void on_fault(const Error& error, Actions& actions) override { actions.emplace_back(error_reply(error)); }

 private:
  void read_metadata(const simdjson::dom::object& metadata, Actions& actions);
  void open(Actions& actions);
  [[nodiscard]] static Reply error_reply(const Error& error) {
    return Reply{fmt::format(R"({{"type":"error","data":{}}})",
                             write_event(ErrorEvent{.error = error, .fatal = true}, OutputFormat::json))};
  }

  Media media_;
  std::optional<ChannelSplitter> splitter_;  // once there is audio
  bool has_metadata_ = false;
};

void JambonzDialect::on_text(std::string_view message, Actions& actions) {
  const auto json = JsonMessage::parse(message, max_message_bytes);
  if (!json) {
    actions.emplace_back(Ignored{json.error()});
    return;
  }
  // Later ones tell of keys pressed and the like.
  if (!std::exchange(has_metadata_, true) && !splitter_) read_metadata(json->object(), actions);
}

void JambonzDialect::read_metadata(const simdjson::dom::object& metadata, Actions& actions) {
  if (const auto rate = integer_in(metadata, "sampleRate")) {
    if (*rate < min_sample_rate || *rate > max_sample_rate) {
      actions.emplace_back(
          Close{.code = CloseReason::policy,
                .message = fmt::format("sampleRate is {}; accepted is a whole number of Hz from {} to {}",
                                       *rate, min_sample_rate, max_sample_rate),
                .error_code = "bad_sample_rate"});
      return;
    }
    media_.sample_rate = static_cast<int>(*rate);
  }
  if (const auto mix = string_in(metadata, "mixType")) media_.channels = *mix == "stereo" ? 2 : 1;
  for (const std::string_view name : {"callSid", "callId", "callid"}) {
    if (const auto call = string_in(metadata, name)) {
      actions.emplace_back(Announce{utf8_prefix(*call, max_name_bytes)});
      break;
    }
  }
  open(actions);
}

void JambonzDialect::open(Actions& actions) {
  splitter_.emplace(bytes_per_sample(Encoding::pcm_s16le), media_.channels);
  StreamRequest request;
  request.sample_rate = media_.sample_rate;
  for (int track = 0; track < media_.channels; ++track) actions.emplace_back(OpenTrack{track, request});
}

void JambonzDialect::on_binary(std::span<const std::byte> bytes, bool /*ends_message*/, Actions& actions) {
  if (!splitter_) open(actions);
  int track = 0;
  for (auto& part : splitter_->split(bytes)) {
    if (!part.empty()) actions.emplace_back(TrackAudio{.track = track, .bytes = std::move(part)});
    ++track;
  }
}

/// FreeSWITCH makes an event of its own of a `transcription`, with `data` as the body; jambonz ignores it.
void JambonzDialect::on_event(int track, const ServerEvent& event, Actions& actions) {
  if (const auto* failed = std::get_if<ErrorEvent>(&event)) {
    actions.emplace_back(error_reply(failed->error));
    actions.emplace_back(Close{close_reason(failed->error.code), failed->error.message});
    return;
  }
  const bool is_partial = std::holds_alternative<Partial>(event);
  if (!is_partial && !std::holds_alternative<Final>(event)) return;
  actions.emplace_back(Reply{fmt::format(R"({{"type":"transcription","data":{}}})",
                                         write_event(event, TrackName{.channel = track, .label = {}})),
                             is_partial});
}

std::string chosen_subprotocol(const Handshake& handshake) {
  for (const std::string_view offered : handshake.subprotocols()) {
    if (std::ranges::find(subprotocols, offered) != subprotocols.end()) return std::string(offered);
  }
  return {};
}

}  // namespace

Acceptance accept_jambonz(const Handshake& handshake) {
  const auto media = read_query(handshake.query);
  if (!media) {
    return Refused{.status = 400,
                   .body = write_event(ErrorEvent{.error = media.error(), .fatal = true}, OutputFormat::json),
                   .headers = {}};
  }
  return Accepted{.dialect = std::make_unique<JambonzDialect>(*media),
                  .subprotocol = chosen_subprotocol(handshake),
                  .headers = {}};
}

}  // namespace tutti::proto
