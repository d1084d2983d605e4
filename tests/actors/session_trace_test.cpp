#include "actors/session_trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace tutti::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Kind = SessionTrace::Kind;

const Clock::time_point start{std::chrono::hours(1)};

SessionTrace new_trace() {
  return {"1a-2b", "native", start, std::chrono::system_clock::time_point{std::chrono::seconds(1700000000)}};
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(SessionTrace, SaysWhoseItIsAndHowLongTheSessionWas) {
  SessionTrace trace = new_trace();
  trace.end(start + milliseconds(1500));
  EXPECT_EQ(trace.json(), R"({"displayTimeUnit":"ms","otherData":{"session":"1a-2b","dialect":"native",)"
                          R"("began":"2023-11-14T22:13:20Z","dropped_events":0},"traceEvents":[)"
                          R"({"ph":"M","pid":1,"tid":0,"name":"thread_name","args":{"name":"session"}},)"
                          R"({"name":"session","pid":1,"tid":0,"ts":0,"ph":"X","dur":1500000}]})");
}

TEST(SessionTrace, MakesOneEventOfAudioThatComesInManyMessages) {
  SessionTrace trace = new_trace();
  for (int i = 0; i < 25; ++i) trace.audio(0, start + milliseconds(20 * i), 640);
  trace.audio(1, start + milliseconds(50), 7);
  const std::string json = trace.json();
  EXPECT_EQ(count(json, R"("name":"audio")"), 4) << json;
  EXPECT_THAT(json, HasSubstr(R"("tid":1,"ts":0,"ph":"X","dur":180000,"args":{"bytes":6400})"));
  EXPECT_THAT(json, HasSubstr(R"("tid":1,"ts":200000,"ph":"X","dur":180000,"args":{"bytes":6400})"));
  EXPECT_THAT(json, HasSubstr(R"("tid":1,"ts":400000,"ph":"X","dur":80000,"args":{"bytes":3200})"));
  EXPECT_THAT(json, HasSubstr(R"("tid":4,"ts":50000,"ph":"X","dur":0,"args":{"bytes":7})"));
  EXPECT_THAT(json, HasSubstr(R"({"name":"track 1: client"})"));
}

TEST(SessionTrace, KeepsSoManyEventsAndCountsTheRest) {
  SessionTrace trace = new_trace();
  for (size_t i = 0; i < SessionTrace::max_events + 3; ++i) {
    trace.instant(Kind::partial, 0, start + microseconds(i), 1);
  }
  trace.audio(0, start, 640);
  trace.end(start + milliseconds(1500));
  const std::string json = trace.json();
  EXPECT_EQ(count(json, R"("name":"partial")"), static_cast<int>(SessionTrace::max_events));
  EXPECT_THAT(json, HasSubstr(R"("dropped_events":4)"));
  EXPECT_THAT(json, Not(HasSubstr(R"("name":"audio")")));
  EXPECT_THAT(json, HasSubstr(R"("name":"session")"));
}

TEST(TrackTrace, LaysTheStagesOfATickEndToEndWithinIt) {
  SessionTrace trace = new_trace();
  TrackTrace track(&trace, 0);
  const auto at = [](int ms) { return start + milliseconds(ms); };
  const auto tick = std::make_shared<const TickTimeline>(TickTimeline{.begin = at(100),
                                                                      .features = milliseconds(1),
                                                                      .forward = milliseconds(20),
                                                                      .decode = milliseconds(3),
                                                                      .rescore = {},
                                                                      .recognized = at(125),
                                                                      .lanes = 8});
  track.note_tick({tick, at(90), at(127)});
  const std::string json = trace.json();
  for (const char* event : {R"("chunk","pid":1,"tid":2,"ts":90000,"ph":"X","dur":37000,"args":{"lanes":8})",
                            R"("queue","pid":1,"tid":2,"ts":90000,"ph":"X","dur":10000)",
                            R"("tick","pid":1,"tid":2,"ts":100000,"ph":"X","dur":27000)",
                            R"("features","pid":1,"tid":2,"ts":100000,"ph":"X","dur":1000)",
                            R"("forward","pid":1,"tid":2,"ts":101000,"ph":"X","dur":20000)",
                            R"("decode","pid":1,"tid":2,"ts":121000,"ph":"X","dur":3000)",
                            R"("emit","pid":1,"tid":2,"ts":125000,"ph":"X","dur":2000)"}) {
    EXPECT_THAT(json, HasSubstr(event));
  }
  EXPECT_THAT(json, Not(HasSubstr("rescore"))) << "nothing was";
}

TEST(TrackTrace, OfATickWithoutAChunkOfItsHasNoQueue) {
  SessionTrace trace = new_trace();
  TrackTrace track(&trace, 0);
  const auto tick = std::make_shared<const TickTimeline>(
      TickTimeline{.begin = start, .recognized = start + milliseconds(1)});
  track.note_tick({tick, {}, start + milliseconds(2)});
  EXPECT_THAT(trace.json(), AllOf(HasSubstr(R"("tick")"), Not(HasSubstr("queue"))));
}

TEST(TrackTrace, WithoutATraceDoesNothing) {
  TrackTrace track(nullptr, 0);
  track.note_audio(start, 1);
  track.note_place(false);
  track.note_tick({std::make_shared<const TickTimeline>(), start, start});
  track.note_told({std::make_shared<const TickTimeline>(), start, start});
}

}  // namespace
}  // namespace tutti::test
