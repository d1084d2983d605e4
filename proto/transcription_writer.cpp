#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "config/json_writer.hpp"
#include "config/utf8.hpp"
#include "proto/transcription.hpp"

namespace tutti::proto {
namespace {

std::string_view error_type(unsigned status) {
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

void write_error(JsonWriter& json, const ApiError& error) {
  json.begin_object().key("error").begin_object();
  json.key("message").string(error.message).key("type").string(error_type(error.status)).key("param");
  if (error.param.empty()) {
    json.null();
  } else {
    json.string(error.param);
  }
  json.key("code").string(error.code).end_object().end_object();
}

std::string json_text(const Transcription& transcription) {
  JsonWriter json;
  json.begin_object().key("text").string(transcription.text()).end_object();
  return std::move(json).take();
}

void write_segments(JsonWriter& json, const std::vector<TranscriptSegment>& segments) {
  json.key("segments").begin_array();
  int64_t id = 0;
  for (const TranscriptSegment& segment : segments) {
    json.begin_object().key("id").integer(id++).key("start").decimal(segment.start);
    json.key("end").decimal(segment.end).key("text").string(segment.text).end_object();
  }
  json.end_array();
}

std::string verbose_json(const Transcription& transcription, bool with_words) {
  JsonWriter json;
  json.begin_object().key("task").string("transcribe").key("language");
  json.string(transcription.language.empty() ? "unknown" : transcription.language);
  json.key("duration").decimal(transcription.duration).key("text").string(transcription.text());
  write_segments(json, transcription.segments);
  if (with_words) {
    json.key("words").begin_array();
    for (const WordTime& word : transcription.words) {
      json.begin_object().key("word").string(word.word).key("start").decimal(word.start);
      json.key("end").decimal(word.end).end_object();
    }
    json.end_array();
  }
  json.end_object();
  return std::move(json).take();
}

std::string clock(double seconds, char decimal_mark) {
  const auto ms = static_cast<int64_t>(std::llround(std::max(0.0, seconds) * 1000.0));
  return fmt::format("{:02}:{:02}:{:02}{}{:03}", ms / 3'600'000, ms / 60'000 % 60, ms / 1000 % 60,
                     decimal_mark, ms % 1000);
}

std::string span_line(const TranscriptSegment& segment, char decimal_mark) {
  return fmt::format("{} --> {}\n", clock(segment.start, decimal_mark), clock(segment.end, decimal_mark));
}

std::string srt(const Transcription& transcription) {
  std::string out;
  int number = 0;
  for (const TranscriptSegment& segment : transcription.segments) {
    fmt::format_to(std::back_inserter(out), "{}\n{}{}\n\n", ++number, span_line(segment, ','),
                   single_line(segment.text));
  }
  return out;
}

/// WebVTT section 4.2.2: cue text is markup.
std::string escape_cue(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string vtt(const Transcription& transcription) {
  std::string out = "WEBVTT\n\n";
  for (const TranscriptSegment& segment : transcription.segments) {
    fmt::format_to(std::back_inserter(out), "{}{}\n\n", span_line(segment, '.'),
                   escape_cue(single_line(segment.text)));
  }
  return out;
}

std::string event(JsonWriter&& json) { return fmt::format("data: {}\n\n", std::move(json).take()); }

}  // namespace

std::string write_api_error(const ApiError& error) {
  JsonWriter json;
  write_error(json, error);
  return std::move(json).take();
}

std::string_view content_type(TranscriptFormat format) {
  switch (format) {
    case TranscriptFormat::json:
    case TranscriptFormat::verbose_json:
      return "application/json";
    case TranscriptFormat::vtt:
      return "text/vtt; charset=utf-8";
    case TranscriptFormat::text:
    case TranscriptFormat::srt:
      break;
  }
  return "text/plain; charset=utf-8";
}

std::string Transcription::text() const {
  std::string out;
  for (const TranscriptSegment& segment : segments) {
    if (!out.empty()) out += ' ';
    out += segment.text;
  }
  return out;
}

std::string write_transcription(const Transcription& transcription, TranscriptFormat format,
                                bool with_words) {
  switch (format) {
    case TranscriptFormat::text:
      return transcription.text() + "\n";
    case TranscriptFormat::verbose_json:
      return verbose_json(transcription, with_words);
    case TranscriptFormat::srt:
      return srt(transcription);
    case TranscriptFormat::vtt:
      return vtt(transcription);
    case TranscriptFormat::json:
      break;
  }
  return json_text(transcription);
}

std::string write_delta_event(std::string_view delta) {
  JsonWriter json;
  json.begin_object().key("type").string("transcript.text.delta").key("delta").string(delta).end_object();
  return event(std::move(json));
}

std::string write_done_event(std::string_view text) {
  JsonWriter json;
  json.begin_object().key("type").string("transcript.text.done").key("text").string(text).end_object();
  return event(std::move(json));
}

std::string write_error_event(const ApiError& error) {
  JsonWriter json;
  write_error(json, error);
  return event(std::move(json));
}

std::string write_model_list(std::string_view model, int64_t created) {
  JsonWriter json;
  json.begin_object().key("object").string("list").key("data").begin_array().begin_object();
  json.key("id").string(model).key("object").string("model").key("created").integer(created);
  json.key("owned_by").string("tutti").end_object().end_array().end_object();
  return std::move(json).take();
}

}  // namespace tutti::proto
