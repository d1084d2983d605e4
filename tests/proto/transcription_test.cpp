#include "proto/transcription.hpp"

#include <gmock/gmock.h>

#include <string>

namespace tutti::proto {
namespace {

using testing::AllOf;
using testing::Field;
using testing::HasSubstr;

constexpr std::string_view form_type = "multipart/form-data; boundary=cut";

std::string form(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string body;
  for (const auto& [name, content] : fields) {
    body += "--cut\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + content + "\r\n";
  }
  return body + "--cut--\r\n";
}

ApiError error_of(std::string_view type, std::string_view query, std::string_view body) {
  const auto request = parse_transcription_request(type, query, body);
  EXPECT_FALSE(request);
  return request ? ApiError{} : request.error();
}

TEST(TranscriptionRequest, ReadsAForm) {
  const std::string body = form({{"model", "whisper-1"},
                                 {"file", "bytes"},
                                 {"language", "en"},
                                 {"prompt", "hello"},
                                 {"response_format", "verbose_json"},
                                 {"temperature", "0.5"},
                                 {"timestamp_granularities[]", "segment"},
                                 {"timestamp_granularities[]", "word"},
                                 {"stream", "false"},
                                 {"no_such_field", "x"}});
  const auto request = parse_transcription_request(form_type, "response_format=no", body);
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->audio, "bytes");
  EXPECT_EQ(request->language, "en");
  EXPECT_EQ(request->format, TranscriptFormat::verbose_json);
  EXPECT_TRUE(request->words);
  EXPECT_FALSE(request->stream);
}

TEST(TranscriptionRequest, ReadsABareFileWithItsFieldsInTheQuery) {
  for (const auto* type : {"audio/wav", "Audio/FLAC; x=y", "application/octet-stream"}) {
    const auto request = parse_transcription_request(
        type, "response_format=text&stream=true&timestamp_granularities%5B%5D=word&x=1", "bytes");
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(request->audio, "bytes");
    EXPECT_EQ(request->format, TranscriptFormat::text);
    EXPECT_TRUE(request->stream);
    EXPECT_TRUE(request->words);
  }
}

TEST(TranscriptionRequest, HasDefaults) {
  const auto request = parse_transcription_request(form_type, "", form({{"file", ""}}));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->format, TranscriptFormat::json);
  EXPECT_FALSE(request->words);
  EXPECT_FALSE(request->stream);
  EXPECT_EQ(request->language, "");
}

TEST(TranscriptionRequest, NamesTheFieldAtFault) {
  const auto bad = [](const char* name, const char* value) {
    return error_of(form_type, "", form({{"file", "x"}, {name, value}}));
  };
  EXPECT_THAT(bad("response_format", "xml"),
              AllOf(Field(&ApiError::status, 400U), Field(&ApiError::param, "response_format"),
                    Field(&ApiError::code, "invalid_value"),
                    Field(&ApiError::message, HasSubstr("\"xml\"; accepted are json, text"))));
  EXPECT_EQ(bad("stream", "1").param, "stream");
  EXPECT_EQ(bad("timestamp_granularities[]", "letter").param, "timestamp_granularities[]");
  EXPECT_THAT(error_of(form_type, "", form({{"model", "x"}})),
              AllOf(Field(&ApiError::code, "missing_file"), Field(&ApiError::param, "file")));
  EXPECT_EQ(error_of(form_type, "", "").code, "bad_multipart");
  EXPECT_EQ(error_of("audio/wav", "a=%zz", "x").code, "bad_parameter");
}

TEST(TranscriptionRequest, StreamsOnlyWhatIsPlainText) {
  for (const auto* format : {"verbose_json", "srt", "vtt"}) {
    const auto error = error_of("audio/wav", std::string("stream=true&response_format=") + format, "x");
    EXPECT_EQ(error.param, "stream");
  }
}

TEST(TranscriptionRequest, RefusesOtherContentTypes) {
  for (const auto* type : {"", "application/x-www-form-urlencoded", "text/plain"}) {
    const auto error = error_of(type, "", "x");
    EXPECT_EQ(error.status, 415U);
    EXPECT_THAT(error.message, HasSubstr("multipart/form-data"));
  }
}

Transcription example() {
  return {.language = "en",
          .duration = 3661.5,
          .segments = {{.start = 0.32, .end = 1.28, .text = "HELLO \"WORLD\""},
                       {.start = 3600.5, .end = 3661.005, .text = "A\n<B> & C"}},
          .words = {{.word = "HELLO", .start = 0.32, .end = 0.8, .confidence = 0.5F}}};
}

TEST(TranscriptionReply, Json) {
  EXPECT_EQ(write_transcription(example(), TranscriptFormat::json, true),
            R"({"text":"HELLO \"WORLD\" A\n<B> & C"})");
  EXPECT_EQ(write_transcription({}, TranscriptFormat::json, false), R"({"text":""})");
}

TEST(TranscriptionReply, Text) {
  EXPECT_EQ(write_transcription(example(), TranscriptFormat::text, false), "HELLO \"WORLD\" A\n<B> & C\n");
}

TEST(TranscriptionReply, VerboseJson) {
  const std::string head =
      R"({"task":"transcribe","language":"en","duration":3661.50,"text":"HELLO \"WORLD\" A\n<B> & C",)"
      R"("segments":[{"id":0,"start":0.32,"end":1.28,"text":"HELLO \"WORLD\""},)"
      R"({"id":1,"start":3600.50,"end":3661.005,"text":"A\n<B> & C"}])";
  EXPECT_EQ(write_transcription(example(), TranscriptFormat::verbose_json, false), head + "}");
  EXPECT_EQ(write_transcription(example(), TranscriptFormat::verbose_json, true),
            head + R"(,"words":[{"word":"HELLO","start":0.32,"end":0.80}]})");
  EXPECT_EQ(
      write_transcription({}, TranscriptFormat::verbose_json, true),
      R"({"task":"transcribe","language":"unknown","duration":0.00,"text":"","segments":[],"words":[]})");
}

TEST(TranscriptionReply, Srt) {
  EXPECT_EQ(write_transcription(example(), TranscriptFormat::srt, false),
            "1\n00:00:00,320 --> 00:00:01,280\nHELLO \"WORLD\"\n\n"
            "2\n01:00:00,500 --> 01:01:01,005\nA <B> & C\n\n");
  EXPECT_EQ(write_transcription({}, TranscriptFormat::srt, false), "");
}

TEST(TranscriptionReply, WebVtt) {
  EXPECT_EQ(write_transcription(example(), TranscriptFormat::vtt, false),
            "WEBVTT\n\n00:00:00.320 --> 00:00:01.280\nHELLO \"WORLD\"\n\n"
            "01:00:00.500 --> 01:01:01.005\nA &lt;B&gt; &amp; C\n\n");
  EXPECT_EQ(write_transcription({}, TranscriptFormat::vtt, false), "WEBVTT\n\n");
}

TEST(TranscriptionReply, Events) {
  EXPECT_EQ(write_delta_event(" B"), "data: {\"type\":\"transcript.text.delta\",\"delta\":\" B\"}\n\n");
  EXPECT_EQ(write_done_event("A\nB"), "data: {\"type\":\"transcript.text.done\",\"text\":\"A\\nB\"}\n\n");
  EXPECT_EQ(
      write_error_event({.status = 503, .code = "stopped", .message = "m", .param = {}}),
      "data: "
      "{\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"param\":null,\"code\":\"stopped\"}}\n\n");
}

TEST(TranscriptionReply, Errors) {
  EXPECT_EQ(write_api_error({.status = 400, .code = "c", .message = "m", .param = "file"}),
            R"({"error":{"message":"m","type":"invalid_request_error","param":"file","code":"c"}})");
  EXPECT_THAT(write_api_error({.status = 429, .code = "c", .message = "m", .param = ""}),
              HasSubstr(R"("type":"rate_limit_error","param":null)"));
}

TEST(TranscriptionReply, Models) {
  EXPECT_EQ(
      write_model_list("mini", 1700000000),
      R"({"object":"list","data":[{"id":"mini","object":"model","created":1700000000,"owned_by":"tutti"}]})");
}

}  // namespace
}  // namespace tutti::proto
