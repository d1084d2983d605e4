#include <gtest/gtest.h>
#include <simdjson.h>

#include <limits>

#include "proto/native.hpp"
#include "tests/config/random_bytes.hpp"

namespace tutti::proto {
namespace {

std::string json(const ServerEvent& event) { return write_event(event, OutputFormat::json); }
std::string text(const ServerEvent& event) { return write_event(event, OutputFormat::text); }

Final hello_world() {
  Final final;
  final.segment = 0;
  final.text = "HELLO WORLD";
  final.start = 0.32;
  final.end = 1.92;
  final.confidence = 0.875F;
  final.reason = "endpoint";
  return final;
}

TEST(NativeWriter, WritesReady) {
  EXPECT_EQ(json(Ready{"s-1", "tutti-en-mini", 16000, 640}),
            R"({"type":"ready","session":"s-1","model":"tutti-en-mini","sample_rate":16000,"chunk_ms":640})");
}

TEST(NativeWriter, WritesVoiceEventsInJsonOnly) {
  EXPECT_EQ(json(SpeechStarted{0.32}), R"({"type":"speech_started","time":0.32})");
  EXPECT_EQ(json(SpeechStopped{1.92}), R"({"type":"speech_stopped","time":1.92})");
  EXPECT_EQ(text(SpeechStarted{0.32}), "");
  EXPECT_EQ(text(SpeechStopped{1.92}), "");
}

TEST(NativeWriter, WritesPartial) {
  EXPECT_EQ(json(Partial{0, "HELLO WOR", 0.32, 1.28}),
            R"({"type":"partial","segment":0,"text":"HELLO WOR","start":0.32,"end":1.28})");
}

TEST(NativeWriter, WritesFinalWithoutWordsWhenTheyAreNotWanted) {
  EXPECT_EQ(json(hello_world()),
            R"({"type":"final","segment":0,"text":"HELLO WORLD","start":0.32,"end":1.92,)"
            R"("confidence":0.875,"reason":"endpoint"})");
}

TEST(NativeWriter, WritesFinalWithWords) {
  Final final = hello_world();
  final.has_words = true;
  final.words = {{"HELLO", 0.32, 0.8, 0.75F}, {"WORLD", 1.0, 1.92, 1.0F}};
  EXPECT_EQ(json(final),
            R"({"type":"final","segment":0,"text":"HELLO WORLD","start":0.32,"end":1.92,)"
            R"("confidence":0.875,"words":[)"
            R"({"word":"HELLO","start":0.32,"end":0.80,"confidence":0.75},)"
            R"({"word":"WORLD","start":1.00,"end":1.92,"confidence":1.00}],"reason":"endpoint"})");
}

TEST(NativeWriter, WritesAnEmptyFinal) {
  Final final;
  final.segment = 3;
  final.has_words = true;
  final.reason = "finalize";
  EXPECT_EQ(json(final), R"({"type":"final","segment":3,"text":"","start":0.00,"end":0.00,)"
                         R"("confidence":0.00,"words":[],"reason":"finalize"})");
}

TEST(NativeWriter, WritesDoneAndError) {
  EXPECT_EQ(json(Done{12.34}), R"({"type":"done","audio_seconds":12.34})");
  EXPECT_EQ(json(ErrorEvent{{"bad_json", "not \"JSON\""}, false}),
            R"({"type":"error","code":"bad_json","message":"not \"JSON\""})");
}

TEST(NativeWriter, WritesPlainLinesInTextForm) {
  EXPECT_EQ(text(Ready{"s-1", "m", 16000, 640}), "");
  EXPECT_EQ(text(Partial{0, "HELLO WOR", 0.32, 1.28}), "~ HELLO WOR");
  EXPECT_EQ(text(hello_world()), "HELLO WORLD");
  EXPECT_EQ(text(Done{12.34}), "");
  EXPECT_EQ(text(ErrorEvent{{"full", "no stream is free"}, true}), "! no stream is free");
}

TEST(NativeWriter, KeepsATextEventOnOneLineAndInUtf8) {
  EXPECT_EQ(text(Partial{0, "A\r\nB\x7f\xFF", 0, 0}), "~ A  B \xEF\xBF\xBD");
}

TEST(NativeWriter, WritesValidJsonForAnyEvent) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  simdjson::dom::parser parser;
  std::uniform_real_distribution<double> time(-1e9, 1e9);
  for (int i = 0; i < 2000; ++i) {
    Final final;
    final.text = random_bytes(random, 50);
    final.start = time(random);
    final.end = std::numeric_limits<double>::quiet_NaN();
    final.confidence = std::numeric_limits<float>::infinity();
    final.has_words = true;
    final.words.resize(i % 4, WordTime{random_bytes(random, 8), time(random), time(random), 0.5F});
    final.reason = "eof";
    const std::string written = json(final);
    simdjson::dom::element parsed;
    ASSERT_EQ(parser.parse(written).get(parsed), simdjson::SUCCESS) << written;
    ASSERT_EQ(parsed["words"].get_array().value_unsafe().size(), final.words.size());
  }
}

}  // namespace
}  // namespace tutti::proto
