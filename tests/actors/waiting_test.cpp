#include <gmock/gmock.h>

#include "actors/latency_guard.hpp"
#include "tests/actors/stream_fixture.hpp"

namespace tutti::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

/// New streams that find no place free.
class WaitingTest : public ActorTest {
 protected:
  void SetUp() override {
    rules.max_wait = seconds(3);
    rules.max_waiting = 2;
  }
  static bool is_ready(const Session& session) { return session.sink->count("\"ready\"") == 1; }
};

TEST_F(WaitingTest, StreamsGetPlacesInTheOrderInWhichTheyCame) {
  start({1});
  Session first = open();
  const Session second = open();
  const Session third = open();
  ASSERT_TRUE(is_ready(first));
  EXPECT_FALSE(is_ready(second));
  EXPECT_EQ(second.sink->granted, 0) << "audio is taken before there is a place";
  logs[0]->max_streams = 3;  // the engine has released them by then
  first.port->on_closed();
  system.run();
  EXPECT_TRUE(is_ready(second));
  EXPECT_FALSE(is_ready(third));
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_waiting_streams 1"));
}

TEST_F(WaitingTest, ANewStreamDoesNotOvertakeThoseThatWait) {
  start({1});
  Session first = open();
  const Session second = open();
  logs[0]->max_streams = 3;
  // The place is free, and the next comes before anybody has taken it.
  first.port->on_closed();
  Session third;
  third.port = bridge->open_stream(native_session(""), third.sink);
  system.run();
  EXPECT_TRUE(is_ready(second));
  EXPECT_FALSE(is_ready(third));
}

TEST_F(WaitingTest, WhoHasWaitedTooLongIsRefused) {
  start({1});
  const Session first = open();
  const Session second = open();
  EXPECT_FALSE(status->refusal("native")) << "it would wait";
  system.advance(seconds(2));
  EXPECT_FALSE(second.sink->closed());
  system.advance(seconds(2));
  EXPECT_EQ(second.sink->count("\"full\""), 1);
  EXPECT_EQ(second.sink->close_reason, CloseReason::try_again_later);
  EXPECT_FALSE(first.sink->closed());
}

TEST_F(WaitingTest, OneMoreThanMayWaitIsRefusedAtOnce) {
  start({1});
  const Session first = open();
  const Session second = open();
  const Session third = open();
  EXPECT_EQ(status->refusal("native").value().code, "full");
  const Session fourth = open();
  EXPECT_EQ(fourth.sink->count("\"full\""), 1);
  EXPECT_FALSE(third.sink->closed());
}

TEST_F(WaitingTest, WhoLeavesMeanwhileIsForgotten) {
  start({1});
  Session first = open();
  Session second = open();
  const Session third = open();
  logs[0]->max_streams = 3;
  second.port->on_closed();
  first.port->on_closed();
  system.run();
  EXPECT_TRUE(is_ready(third));
  EXPECT_EQ(logs[0]->admitted, 2);
}

TEST_F(WaitingTest, WithoutAWaitTheNextIsRefusedAtOnce) {
  rules.max_wait = seconds(0);
  start({1});
  Session first = open();
  EXPECT_EQ(status->refusal("native").value().code, "full");
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_refusals_total{dialect=\"native\",reason=\"full\"} 1"));
  first.port->on_closed();
  system.run();
  EXPECT_FALSE(status->refusal("native"));
}

TEST_F(WaitingTest, AnOwnerThatIsLateWithItsStreamsGetsNoNewOnes) {
  rules.max_wait = seconds(0);
  start({4, 2});
  logs[0]->overloaded = true;
  system.advance(seconds(2));
  const Session spared = open();
  EXPECT_TRUE(is_ready(spared));
  EXPECT_EQ(logs[0]->admitted, 0);
  logs[1]->overloaded = true;
  system.advance(seconds(2));
  EXPECT_EQ(status->refusal("native").value().code, "overloaded");
  const Session refused = open();
  EXPECT_EQ(refused.sink->count("\"overloaded\""), 1);
  EXPECT_EQ(refused.sink->close_reason, CloseReason::try_again_later);
  EXPECT_TRUE(status->ready()) << "it recognizes what it has";
  logs[0]->overloaded = false;
  system.advance(seconds(2));
  EXPECT_TRUE(is_ready(open()));
  EXPECT_FALSE(spared.sink->closed());
}

class LatencyGuardTest : public testing::Test {
 protected:
  void record(int chunks, milliseconds latency) {
    for (int i = 0; i < chunks; ++i) guard.record(now, latency);
  }
  LatencyGuard guard{milliseconds(500)};
  Clock::time_point now{seconds(1000)};
};

TEST_F(LatencyGuardTest, ClosesWhenTheNinetyNinthPercentilePassesTheTarget) {
  record(990, milliseconds(100));
  record(10, milliseconds(900));
  EXPECT_FALSE(guard.is_closed(now));
  record(1, milliseconds(501));
  EXPECT_TRUE(guard.is_closed(now));
}

TEST_F(LatencyGuardTest, OpensAgainWellBelowTheTargetOnly) {
  record(200, milliseconds(600));
  ASSERT_TRUE(guard.is_closed(now));
  now += LatencyGuard::window + seconds(1);
  record(200, milliseconds(400));
  EXPECT_TRUE(guard.is_closed(now)) << "0.8 of the target";
  now += LatencyGuard::window + seconds(1);
  record(200, milliseconds(300));
  EXPECT_FALSE(guard.is_closed(now));
  record(100, milliseconds(400));
  EXPECT_FALSE(guard.is_closed(now));
}

TEST_F(LatencyGuardTest, ForgetsWhatIsOlderThanItsWindow) {
  record(200, milliseconds(600));
  ASSERT_TRUE(guard.is_closed(now));
  EXPECT_TRUE(guard.is_closed(now + seconds(9)));
  EXPECT_FALSE(guard.is_closed(now + seconds(10)));
}

TEST_F(LatencyGuardTest, SaysNothingOfAFewChunks) {
  record(LatencyGuard::fewest_chunks - 1, seconds(5));
  EXPECT_FALSE(guard.is_closed(now));
}

TEST_F(LatencyGuardTest, NeverClosesWithoutATarget) {
  LatencyGuard off{milliseconds(0)};
  for (int i = 0; i < 1000; ++i) off.record(now, seconds(9));
  EXPECT_FALSE(off.is_closed(now));
}

}  // namespace
}  // namespace tutti::test
