#include "proto/server_event.hpp"

#include <fmt/format.h>
#include <simdjson.h>

namespace tutti::proto {
namespace {

using simdjson::dom::object;

std::string text_of(const object& event, std::string_view name) {
  std::string_view value;
  return event[name].get_string().get(value) == simdjson::SUCCESS ? std::string(value) : std::string();
}

double number_of(const object& event, std::string_view name) {
  double value = 0;
  return event[name].get_double().get(value) == simdjson::SUCCESS ? value : 0.0;
}

int integer_of(const object& event, std::string_view name, int fallback = 0) {
  int64_t value = 0;
  return event[name].get_int64().get(value) == simdjson::SUCCESS ? static_cast<int>(value) : fallback;
}

Ready read_ready(const object& event) {
  const Ready defaults;
  return {.session = text_of(event, "session"),
          .model = text_of(event, "model"),
          .sample_rate = integer_of(event, "sample_rate", defaults.sample_rate),
          .chunk_ms = integer_of(event, "chunk_ms", defaults.chunk_ms)};
}

Partial read_partial(const object& event) {
  return {.segment = integer_of(event, "segment"),
          .text = text_of(event, "text"),
          .start = number_of(event, "start"),
          .end = number_of(event, "end")};
}

Final read_final(const object& event) {
  return {.segment = integer_of(event, "segment"),
          .text = text_of(event, "text"),
          .start = number_of(event, "start"),
          .end = number_of(event, "end"),
          .confidence = static_cast<float>(number_of(event, "confidence")),
          .has_words = false,
          .words = {},
          .reason = text_of(event, "reason")};
}

}  // namespace

Result<ServerEvent> parse_server_event(std::string_view text) {
  simdjson::dom::parser parser;
  object event;
  if (parser.parse(text.data(), text.size()).get_object().get(event) != simdjson::SUCCESS) {
    return fail("bad_json", "the server's message is not a JSON object");
  }
  const std::string type = text_of(event, "type");
  if (type == "ready") return read_ready(event);
  if (type == "partial") return read_partial(event);
  if (type == "final") return read_final(event);
  if (type == "done") return Done{.audio_seconds = number_of(event, "audio_seconds")};
  if (type == "speech_started") return SpeechStarted{.time = number_of(event, "time")};
  if (type == "speech_stopped") return SpeechStopped{.time = number_of(event, "time")};
  if (type == "error") {
    return ErrorEvent{.error = {text_of(event, "code"), text_of(event, "message")}, .fatal = false};
  }
  return fail("unknown_type", fmt::format("the server's message has type \"{}\", which is not known", type));
}

}  // namespace tutti::proto
