#include <gmock/gmock.h>

#include "tests/actors/stream_fixture.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

class PlacementTest : public ActorTest {};
class GatewayTest : public ActorTest {};

Update of_kind(Update::Kind kind) {
  Update update;
  update.kind = kind;
  update.reason = FinalReason::eof;
  return update;
}

TEST_F(PlacementTest, ChoosesTheOwnerWithTheMostFreePlaces) {
  start({2, 5, 4});
  std::vector<Session> sessions;
  const auto admitted = [this] {
    return std::vector<int>{logs[0]->admitted, logs[1]->admitted, logs[2]->admitted};
  };
  sessions.push_back(open());
  EXPECT_EQ(admitted(), (std::vector<int>{0, 1, 0}));
  sessions.push_back(open());
  sessions.push_back(open());
  EXPECT_EQ(admitted(), (std::vector<int>{0, 2, 1}));
}

TEST_F(PlacementTest, SpreadsStreamsThatArriveTogether) {
  start({4, 4});
  std::vector<Session> sessions(4);
  for (Session& session : sessions) session.port = bridge->open_stream(native_session(""), session.sink);
  system.run();
  EXPECT_EQ(logs[0]->admitted, 2);
  EXPECT_EQ(logs[1]->admitted, 2);
}

TEST_F(PlacementTest, RefusesWhenEveryPlaceIsTaken) {
  start({1, 1});
  const Session first = open();
  const Session second = open();
  const Session third = open();
  EXPECT_EQ(third.sink->count("\"full\""), 1);
  EXPECT_EQ(third.sink->close_reason, CloseReason::try_again_later);
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_refusals_total{dialect=\"native\",reason=\"full\"} 1"));
}

TEST_F(PlacementTest, GivesAPlaceAgainWhenItsStreamHasEnded) {
  start({1});
  logs[0]->max_streams = 2;  // the engine behind would admit, so that only placement can refuse
  Session first = open();
  first.port->on_closed();
  system.run();
  const Session second = open();
  EXPECT_EQ(second.sink->count("\"ready\""), 1);
}

TEST_F(PlacementTest, PassesOverAnOwnerThatIsFullerThanItKnows) {
  start({3, 2});
  logs[0]->max_streams = 0;
  const Session session = open();
  EXPECT_EQ(session.sink->count("\"ready\""), 1);
  EXPECT_EQ(logs[1]->admitted, 1);
}

TEST_F(PlacementTest, PassesOverAnOwnerThatDied) {
  start({3, 2});
  caf::anon_send_exit(owners[0], caf::exit_reason::kill);
  system.run();
  const Session session = open();
  EXPECT_EQ(session.sink->count("\"ready\""), 1);
  EXPECT_EQ(logs[1]->admitted, 1);
}

TEST_F(PlacementTest, SaysWhenNoOwnerIsLeft) {
  start({3});
  caf::anon_send_exit(owners[0], caf::exit_reason::kill);
  system.run();
  const Session session = open();
  EXPECT_FALSE(status->ready());
  EXPECT_EQ(session.sink->count("\"no_device\""), 1);
  EXPECT_EQ(session.sink->close_reason, CloseReason::try_again_later);
}

TEST_F(GatewayTest, DrainingRefusesNewSessionsAndLetsOpenOnesGoOn) {
  start({4});
  system.run();
  EXPECT_TRUE(status->ready());
  EXPECT_FALSE(status->refusal("native"));
  Session running = open();
  caf::anon_send(gateway, drain_atom_v);
  system.run();
  EXPECT_FALSE(status->ready());
  EXPECT_EQ(status->refusal("native").value().code, "draining");
  const Session late = open();
  EXPECT_EQ(late.sink->count("\"draining\""), 1);
  EXPECT_EQ(late.sink->close_reason, CloseReason::going_away);
  running.port->on_audio(silence(32000));
  system.run();
  EXPECT_EQ(logs[0]->samples.size(), 16000U);
  EXPECT_EQ(logs[0]->finished, 0);
  EXPECT_FALSE(running.sink->closed());
}

TEST_F(GatewayTest, TheEndOfTheGracePeriodDeliversTheFinalsOfOpenStreams) {
  start({4});
  Session session = open();
  session.port->on_audio(silence(32000));
  caf::anon_send(gateway, drain_atom_v);
  system.run();
  system.advance(std::chrono::seconds(9));
  EXPECT_EQ(logs[0]->finished, 0);
  system.advance(std::chrono::seconds(2));
  EXPECT_EQ(logs[0]->samples.size(), 16000U);
  EXPECT_EQ(logs[0]->finished, 1);
  EXPECT_FALSE(session.sink->closed());
  send_update(stream(), of_kind(Update::Kind::final));
  send_update(stream(), of_kind(Update::Kind::done));
  system.run();
  EXPECT_EQ(session.sink->count("\"final\""), 1);
  EXPECT_EQ(session.sink->count("\"done\""), 1);
  EXPECT_EQ(session.sink->close_reason, CloseReason::going_away);
}

TEST_F(GatewayTest, QuitsOnceItsLastStreamHasEnded) {
  start({4});
  Session session = open();
  bool ended = false;
  gateway->attach_functor([&] { ended = true; });
  caf::anon_send(gateway, drain_atom_v);
  system.run();
  EXPECT_FALSE(ended);
  session.port->on_closed();
  system.run();
  EXPECT_TRUE(ended);
}

TEST_F(GatewayTest, StopsStreamsWhoseLastFinalsDoNotCome) {
  start({4});
  const Session session = open();
  caf::anon_send(gateway, drain_atom_v);
  system.run();
  system.advance(std::chrono::seconds(11));
  EXPECT_FALSE(session.sink->closed());
  system.advance(last_finals);
  EXPECT_EQ(session.sink->count("\"stopped\""), 1);
  EXPECT_EQ(session.sink->close_reason, CloseReason::going_away);
}

TEST_F(GatewayTest, StoppingEndsStreamsAtOnce) {
  start({4});
  const Session session = open();
  caf::anon_send(gateway, stop_atom_v);
  system.run();
  EXPECT_EQ(session.sink->count("\"stopped\""), 1);
  EXPECT_EQ(logs[0]->released.size(), 1U);
}

}  // namespace
}  // namespace tutti::test
