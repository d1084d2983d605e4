#include "proto/server_event.hpp"

#include <gtest/gtest.h>

namespace tutti::proto {
namespace {

template <class Event>
Event round_trip(const Event& event) {
  return std::get<Event>(parse_server_event(write_event(event, OutputFormat::json)).value());
}

TEST(ServerEvent, ReadsWhatTheServerWrites) {
  const auto ready = round_trip(Ready{"s1", "tiny", 8000, 320});
  EXPECT_EQ(ready.session, "s1");
  EXPECT_EQ(ready.model, "tiny");
  EXPECT_EQ(ready.sample_rate, 8000);
  EXPECT_EQ(ready.chunk_ms, 320);

  const auto partial = round_trip(Partial{3, "HELLO \"WOR", 0.32, 1.28});
  EXPECT_EQ(partial.segment, 3);
  EXPECT_EQ(partial.text, "HELLO \"WOR");
  EXPECT_DOUBLE_EQ(partial.start, 0.32);
  EXPECT_DOUBLE_EQ(partial.end, 1.28);

  const auto final =
      round_trip(Final{.segment = 1, .text = "HI", .end = 2, .words = {}, .reason = "endpoint"});
  EXPECT_EQ(final.segment, 1);
  EXPECT_EQ(final.text, "HI");
  EXPECT_DOUBLE_EQ(final.end, 2);
  EXPECT_EQ(final.reason, "endpoint");

  EXPECT_DOUBLE_EQ(round_trip(Done{12.34}).audio_seconds, 12.34);

  const auto error = round_trip(ErrorEvent{{"full", "no stream is free"}, true});
  EXPECT_EQ(error.error.code, "full");
  EXPECT_EQ(error.error.message, "no stream is free");
}

TEST(ServerEvent, KeepsDefaultsForMissingOrMisshapenMembers) {
  const auto ready = parse_server_event(R"({"type":"ready","chunk_ms":"soon","new":[1,{"a":2}]})").value();
  EXPECT_EQ(std::get<Ready>(ready).chunk_ms, 640);
  EXPECT_EQ(std::get<Ready>(ready).model, "");
}

TEST(ServerEvent, RefusesWhatIsNoEvent) {
  EXPECT_EQ(parse_server_event("").error().code, "bad_json");
  EXPECT_EQ(parse_server_event("hello").error().code, "bad_json");
  EXPECT_EQ(parse_server_event("[1]").error().code, "bad_json");
  EXPECT_EQ(parse_server_event("{}").error().code, "unknown_type");
  EXPECT_EQ(parse_server_event(R"({"type":"news"})").error().code, "unknown_type");
}

}  // namespace
}  // namespace tutti::proto
