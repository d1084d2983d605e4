#include "proto/openai_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "audio/resampler.hpp"
#include "config/utf8.hpp"
#include "proto/json_message.hpp"

namespace tutti::proto {
namespace {

using simdjson::dom::object;

constexpr int pcm_rate = 24000;
constexpr int g711_rate = 8000;
constexpr int longest_ms = 600'000;
// Of a text that is kept only to be told back.
constexpr size_t max_kept_bytes = 1024;

struct Format {
  Encoding encoding;
  std::string_view nested;
  std::string_view flat;
  int sample_rate;
};
constexpr std::array formats = {
    Format{Encoding::pcm_s16le, "audio/pcm", "pcm16", pcm_rate},
    Format{Encoding::mulaw, "audio/pcmu", "g711_ulaw", g711_rate},
    Format{Encoding::alaw, "audio/pcma", "g711_alaw", g711_rate},
};

tl::unexpected<EventError> refuse(std::string_view param, std::string_view given, std::string_view accepted) {
  return tl::unexpected(
      EventError{.code = "invalid_value",
                 .message = fmt::format("{} is {}; accepted are {}", param, given, accepted),
                 .param = std::string(param)});
}

/// A value of any kind as a message shows it.
std::string given_in(const object& from, std::string_view name) {
  constexpr size_t longest = 40;
  simdjson::dom::element value;
  if (from[name].get(value) != simdjson::SUCCESS) return "missing";
  std::string json = simdjson::minify(value);
  if (json.size() > longest) json.replace(longest, std::string::npos, "...");
  return json;
}

EventResult<void> read_nested_format(const object& format, OpenAiSession& session) {
  const auto type = string_in(format, "type").value_or("");
  const auto* const known = std::ranges::find(formats, type, &Format::nested);
  if (known == formats.end()) {
    return refuse("session.audio.input.format.type", given_in(format, "type"),
                  "audio/pcm, audio/pcmu and audio/pcma");
  }
  session.encoding = known->encoding;
  session.sample_rate = known->sample_rate;
  if (format["rate"].error() != simdjson::SUCCESS) return {};
  const auto rate = integer_in(format, "rate").value_or(0);
  if (rate < min_sample_rate || rate > max_sample_rate) {
    return refuse("session.audio.input.format.rate", given_in(format, "rate"),
                  fmt::format("whole numbers of Hz from {} to {}", min_sample_rate, max_sample_rate));
  }
  session.sample_rate = static_cast<int>(rate);
  return {};
}

EventResult<void> read_flat_format(const object& changes, OpenAiSession& session) {
  const auto name = string_in(changes, "input_audio_format").value_or("");
  const auto* const known = std::ranges::find(formats, name, &Format::flat);
  if (known == formats.end()) {
    return refuse("session.input_audio_format", given_in(changes, "input_audio_format"),
                  "pcm16, g711_ulaw and g711_alaw");
  }
  session.encoding = known->encoding;
  session.sample_rate = known->sample_rate;
  return {};
}

EventResult<void> read_duration(const object& from, std::string_view name, std::string_view path,
                                int& duration) {
  if (from[name].error() != simdjson::SUCCESS || is_null(from, name)) return {};
  const auto milliseconds = integer_in(from, name).value_or(-1);
  if (milliseconds < 0 || milliseconds > longest_ms) {
    return refuse(fmt::format("{}.{}", path, name), given_in(from, name),
                  fmt::format("milliseconds from 0 to {}", longest_ms));
  }
  duration = static_cast<int>(milliseconds);
  return {};
}

/// `turn_detection` in `from`, which `path` names.
EventResult<void> read_turn_detection(const object& from, std::string_view path, OpenAiSession& session) {
  if (from["turn_detection"].error() != simdjson::SUCCESS) return {};
  if (is_null(from, "turn_detection")) {
    session.turn_detection.reset();
    return {};
  }
  const std::string full = fmt::format("{}.turn_detection", path);
  const auto given = object_in(from, "turn_detection");
  if (!given) return refuse(full, given_in(from, "turn_detection"), "null and an object");
  const auto type = string_in(*given, "type").value_or("server_vad");
  if (type != "server_vad" && type != "semantic_vad") {
    return refuse(full + ".type", given_in(*given, "type"), "server_vad and semantic_vad");
  }
  TurnDetection detection = session.turn_detection.value_or(TurnDetection{});
  detection.threshold = std::clamp(number_in(*given, "threshold").value_or(detection.threshold), 0.0, 1.0);
  if (auto read = read_duration(*given, "prefix_padding_ms", full, detection.prefix_padding_ms); !read) {
    return read;
  }
  if (auto read = read_duration(*given, "silence_duration_ms", full, detection.silence_duration_ms); !read) {
    return read;
  }
  session.turn_detection = detection;
  return {};
}

void keep(const object& from, std::string_view name, std::string& text) {
  if (const auto given = string_in(from, name)) text = utf8_prefix(*given, max_kept_bytes);
}

void read_transcription(const object& from, std::string_view name, OpenAiSession& session) {
  const auto given = object_in(from, name);
  if (!given) return;
  keep(*given, "model", session.model);
  keep(*given, "language", session.language);
  keep(*given, "prompt", session.prompt);
}

EventResult<void> read_nested(const object& input, OpenAiSession& session) {
  if (const auto format = object_in(input, "format")) {
    if (auto read = read_nested_format(*format, session); !read) return read;
  }
  read_transcription(input, "transcription", session);
  return read_turn_detection(input, "session.audio.input", session);
}

EventResult<void> read_flat(const object& changes, OpenAiSession& session) {
  if (changes["input_audio_format"].error() == simdjson::SUCCESS) {
    if (auto read = read_flat_format(changes, session); !read) return read;
  }
  read_transcription(changes, "input_audio_transcription", session);
  return read_turn_detection(changes, "session", session);
}

const Format& format_of(const OpenAiSession& session) {
  return *std::ranges::find(formats, session.encoding, &Format::encoding);
}

void write_transcription(JsonWriter& json, const OpenAiSession& session) {
  json.begin_object().key("model").string(session.model).key("language");
  if (session.language.empty()) {
    json.null();
  } else {
    json.string(session.language);
  }
  json.key("prompt").string(session.prompt).end_object();
}

void write_turn_detection(JsonWriter& json, const std::optional<TurnDetection>& detection) {
  json.key("turn_detection");
  if (!detection) {
    json.null();
    return;
  }
  json.begin_object().key("type").string("server_vad").key("threshold").decimal(detection->threshold);
  json.key("prefix_padding_ms").integer(detection->prefix_padding_ms);
  json.key("silence_duration_ms").integer(detection->silence_duration_ms).end_object();
}

}  // namespace

bool OpenAiSession::same_stream(const OpenAiSession& other) const {
  return encoding == other.encoding && sample_rate == other.sample_rate &&
         turn_detection.has_value() == other.turn_detection.has_value() &&
         (!turn_detection ||
          turn_detection->silence_duration_ms == other.turn_detection->silence_duration_ms);
}

StreamRequest OpenAiSession::stream_request() const {
  StreamRequest request;
  request.format.encoding = encoding;
  request.sample_rate = sample_rate;
  request.words = false;
  request.vad_events = turn_detection.has_value();
  if (turn_detection) {
    request.endpoint_silence_ms = std::max(1, turn_detection->silence_duration_ms);
  } else {
    request.endpoint_silence_ms = request.long_silence_ms = request.max_segment_ms = 0;
  }
  return request;
}

EventResult<SessionUpdate> update_session(OpenAiSession session, const object& changes) {
  const auto type = string_in(changes, "type").value_or("transcription");
  if (type != "transcription") {
    return refuse("session.type", given_in(changes, "type"), "transcription, and no other");
  }
  SessionUpdate update{.session = std::move(session), .form = SessionForm::nested};
  const auto audio = object_in(changes, "audio");
  const auto input = audio ? object_in(*audio, "input") : std::nullopt;
  const bool is_flat = std::ranges::any_of(
      std::array<std::string_view, 3>{"input_audio_format", "input_audio_transcription", "turn_detection"},
      [&](std::string_view name) { return changes[name].error() == simdjson::SUCCESS; });
  if (is_flat && !input) update.form = SessionForm::flat;
  const auto read = update.form == SessionForm::flat ? read_flat(changes, update.session)
                    : input                          ? read_nested(*input, update.session)
                                                     : EventResult<void>{};
  if (!read) return tl::unexpected(read.error());
  return update;
}

void write_session(JsonWriter& json, const OpenAiSession& session, SessionForm form) {
  const Format& format = format_of(session);
  if (form == SessionForm::flat) {
    json.key("input_audio_format").string(format.flat).key("input_audio_transcription");
    write_transcription(json, session);
    write_turn_detection(json, session.turn_detection);
    json.key("input_audio_noise_reduction").null().key("include").null();
    return;
  }
  json.key("audio").begin_object().key("input").begin_object();
  json.key("format").begin_object().key("type").string(format.nested);
  json.key("rate").integer(session.sample_rate).end_object().key("transcription");
  write_transcription(json, session);
  json.key("noise_reduction").null();
  write_turn_detection(json, session.turn_detection);
  json.end_object().end_object().key("include").null();
}

}  // namespace tutti::proto
