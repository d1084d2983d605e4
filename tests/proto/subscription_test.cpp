#include "proto/subscription.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "proto/native.hpp"

namespace tutti::proto {
namespace {

TEST(WatchedStream, IsNamedByThePath) {
  EXPECT_EQ(watched_stream("/v1/streams/MZ1/events")->value(), "MZ1");
  EXPECT_EQ(watched_stream("/v1/streams/PJSIP%2Falice+1/events")->value(), "PJSIP/alice+1");
}

TEST(WatchedStream, IsNoOtherPath) {
  for (const char* path : {"/v1/streams", "/v1/streams/", "/v1/streams//events", "/v1/streams/a/b/events",
                           "/v1/streams/a", "/v1/streams/a/events/", "/v1/stream", "/events"}) {
    EXPECT_FALSE(watched_stream(path)) << path;
  }
}

TEST(WatchedStream, IsRefusedWithABrokenEscape) {
  const auto stream = watched_stream("/v1/streams/a%2/events");
  ASSERT_TRUE(stream);
  ASSERT_FALSE(*stream);
  EXPECT_EQ(stream->error().code, "bad_parameter");
}

TEST(EventPlace, IsASessionAndANumber) {
  const auto place = parse_event_place("a:b:12");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->session, "a:b");
  EXPECT_EQ(place->number, 12U);
  for (const char* text : {"", "12", "a:", "a:-1", "a:1x", "a:99999999999999999999"}) {
    EXPECT_FALSE(parse_event_place(text)) << text;
  }
}

TEST(SubscriberMessage, IsAnEventWithItsPlaceAndData) {
  EXPECT_EQ(write_subscriber_message(SubscriberForm::event_stream, "final", R"({"a":1})", EventPlace{"s", 7}),
            "id: s:7\nevent: final\ndata: {\"a\":1}\n\n");
  EXPECT_EQ(write_subscriber_message(SubscriberForm::event_stream, "partial", "{}", std::nullopt),
            "event: partial\ndata: {}\n\n");
}

TEST(SubscriberMessage, IsTheJsonAloneOverAWebSocket) {
  EXPECT_EQ(write_subscriber_message(SubscriberForm::websocket, "final", R"({"a":1})", EventPlace{"s", 7}),
            R"({"a":1})");
}

TEST(SubscriberMessage, StaysOneEventWhateverTheTranscriptHolds) {
  const std::string json =
      write_event(Partial{.segment = 0, .text = "a\nid: x\r\n\nevent: y", .start = 0, .end = 1},
                  TrackName{.channel = 0, .label = "in\nbound"});
  const std::string message =
      write_subscriber_message(SubscriberForm::event_stream, "partial", json, std::nullopt);
  EXPECT_EQ(std::ranges::count(message, '\n'), 3);
  EXPECT_EQ(message.find('\r'), std::string::npos);
}

TEST(SubscriberMessage, TellsOfWhatWasMissedAndOfTheEnd) {
  EXPECT_EQ(missed_json(3), R"({"type":"missed","count":3})");
  EXPECT_EQ(end_json("s"), R"({"type":"end","session":"s"})");
}

TEST(TrackEvent, BeginsWithTheChannelOrTheLabel) {
  const SpeechStarted event{.time = 1};
  EXPECT_EQ(write_event(event, TrackName{.channel = 1, .label = {}}),
            R"({"channel":1,"type":"speech_started","time":1.00})");
  EXPECT_EQ(write_event(event, TrackName{.channel = 1, .label = "outbound"}),
            R"({"track":"outbound","type":"speech_started","time":1.00})");
}

}  // namespace
}  // namespace tutti::proto
