#include "config/json_writer.hpp"
#include "config/utf8.hpp"
#include "proto/native.hpp"

namespace tutti::proto {
namespace {

void write_times(JsonWriter& json, double start, double end) {
  json.key("start").decimal(start).key("end").decimal(end);
}

void write_words(JsonWriter& json, const std::vector<WordTime>& words) {
  json.key("words").begin_array();
  for (const WordTime& word : words) {
    json.begin_object().key("word").string(word.word);
    write_times(json, word.start, word.end);
    json.key("confidence").decimal(word.confidence).end_object();
  }
  json.end_array();
}

struct JsonMembers {
  JsonWriter& json;

  void operator()(const Ready& ready) const {
    json.key("type").string("ready").key("session").string(ready.session).key("model").string(ready.model);
    json.key("sample_rate").integer(ready.sample_rate).key("chunk_ms").integer(ready.chunk_ms);
  }
  void operator()(const SpeechStarted& event) const {
    json.key("type").string("speech_started").key("time").decimal(event.time);
  }
  void operator()(const SpeechStopped& event) const {
    json.key("type").string("speech_stopped").key("time").decimal(event.time);
  }
  void operator()(const Partial& partial) const {
    json.key("type")
        .string("partial")
        .key("segment")
        .integer(partial.segment)
        .key("text")
        .string(partial.text);
    write_times(json, partial.start, partial.end);
  }
  void operator()(const Final& final) const {
    json.key("type").string("final").key("segment").integer(final.segment).key("text").string(final.text);
    write_times(json, final.start, final.end);
    json.key("confidence").decimal(final.confidence);
    if (final.has_words) write_words(json, final.words);
    json.key("reason").string(final.reason);
  }
  void operator()(const Done& done) const {
    json.key("type").string("done").key("audio_seconds").decimal(done.audio_seconds);
  }
  void operator()(const ErrorEvent& event) const {
    json.key("type").string("error").key("code").string(event.error.code);
    json.key("message").string(event.error.message);
  }
};

struct TextLine {
  std::string operator()(const Ready&) const { return {}; }
  std::string operator()(const SpeechStarted&) const { return {}; }
  std::string operator()(const SpeechStopped&) const { return {}; }
  std::string operator()(const Partial& partial) const { return "~ " + single_line(partial.text); }
  std::string operator()(const Final& final) const { return single_line(final.text); }
  std::string operator()(const Done&) const { return {}; }
  std::string operator()(const ErrorEvent& event) const { return "! " + single_line(event.error.message); }
};

}  // namespace

std::string write_event(const ServerEvent& event, OutputFormat format) {
  if (format == OutputFormat::text) return std::visit(TextLine{}, event);
  JsonWriter json;
  json.begin_object();
  std::visit(JsonMembers{json}, event);
  json.end_object();
  return std::move(json).take();
}

std::string write_event(const ServerEvent& event, const TrackName& track) {
  JsonWriter json;
  json.begin_object();
  if (track.label.empty()) {
    json.key("channel").integer(track.channel);
  } else {
    json.key("track").string(track.label);
  }
  std::visit(JsonMembers{json}, event);
  json.end_object();
  return std::move(json).take();
}

}  // namespace tutti::proto
