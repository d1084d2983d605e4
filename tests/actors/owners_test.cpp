#include <gmock/gmock.h>

#include <chrono>

#include "tests/actors/stream_fixture.hpp"

namespace tutti::test {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

/// Owners that come and go while streams are open.
class OwnersTest : public ActorTest {
 protected:
  void start() {
    ActorTest::start({});
    system.run();
  }

  static bool is_ready(const Session& session) { return session.sink->count("\"ready\"") == 1; }
};

TEST_F(OwnersTest, AServerWithoutOwnersIsNotReady) {
  start();
  EXPECT_FALSE(status->ready());
  EXPECT_EQ(open().sink->count("\"no_device\""), 1);
  join({.max_streams = 2});
  EXPECT_TRUE(status->ready());
  EXPECT_TRUE(is_ready(open()));
}

TEST_F(OwnersTest, OneThatJoinsServesThoseWhoWait) {
  rules.max_wait = seconds(3);
  start();
  join({.max_streams = 1});
  const Session first = open();
  const Session second = open();
  EXPECT_FALSE(is_ready(second));
  join({.max_streams = 1});
  EXPECT_TRUE(is_ready(second));
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_stream_places 2"));
}

TEST_F(OwnersTest, OneThatRetiresKeepsItsStreamsAndEndsWithTheLast) {
  start();
  join({.max_streams = 2});
  Session first = open();
  Session second = open();
  retire_all();
  EXPECT_FALSE(status->ready()) << "nobody takes new streams";
  join({.max_streams = 2});
  EXPECT_TRUE(status->ready());
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_stream_places 2"));
  first.port->on_closed();
  system.run();
  const Session third = open();
  EXPECT_TRUE(is_ready(third));
  EXPECT_EQ(logs[0]->admitted, 2);
  EXPECT_FALSE(second.sink->closed());
  EXPECT_EQ(logs[0]->released.size(), 1U);
  second.port->on_closed();
  system.run();
  EXPECT_EQ(logs[0]->released.size(), 2U);
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_owners{state=\"lost\"} 0"));
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_owners{state=\"alive\"} 1"));
}

TEST_F(OwnersTest, OneThatRetiresWithoutStreamsEndsAtOnce) {
  start();
  join({.max_streams = 2});
  swap({.max_streams = 2});
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_owners{state=\"alive\"} 1"));
}

TEST_F(OwnersTest, OneThatHangsWhenItRetiresEndsOnlyWhenItAnswers) {
  start();
  join({.max_streams = 2});
  logs[0]->hung = true;
  for (int second = 0; second < 8; ++second) system.advance(seconds(1));
  swap({.max_streams = 2});
  EXPECT_TRUE(status->has_hung_owner()) << "its thread cannot be ended";
  logs[0]->hung = false;
  caf::anon_send(owners[0], tick_atom_v);
  system.run();
  EXPECT_FALSE(status->has_hung_owner());
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_owners{state=\"alive\"} 1"));
}

TEST_F(OwnersTest, ThoseOfAnotherModelTakeOverFromAllOfThisProcess) {
  start();
  join({.max_streams = 2, .model_identity = "old"});
  join({.max_streams = 1, .model_identity = "old"});
  join({.max_streams = 1, .model_identity = "old", .is_remote = true});
  Session before = open();  // with the first, that has most places
  swap({.max_streams = 4, .model_identity = "new"});
  EXPECT_TRUE(status->ready());
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_stream_places 5")) << "of the new and the remote one";
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_owners{state=\"retiring\"} 1")) << "the second had no stream";
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(is_ready(open()));
  EXPECT_GE(logs[3]->admitted, 3);
  EXPECT_EQ(logs[0]->admitted, 1);
  EXPECT_FALSE(before.sink->closed());
  before.port->on_closed();
  system.run();
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_owners{state=\"retiring\"} 0"));
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_owners{state=\"alive\"} 2"));
}

TEST_F(OwnersTest, ThoseOfAnotherModelServeThoseWhoWait) {
  rules.max_wait = seconds(3);
  start();
  join({.max_streams = 1});
  const Session first = open();
  const Session second = open();
  EXPECT_FALSE(is_ready(second));
  swap({.max_streams = 1});
  EXPECT_TRUE(is_ready(second));
}

TEST_F(OwnersTest, AStreamMovesToAnOwnerOfItsModelOnly) {
  start();
  join({.max_streams = 1, .model_identity = "old"});
  join({.max_streams = 1, .model_identity = "old"});
  Session left = open();
  const Session moved = open();
  swap({.max_streams = 8, .model_identity = "new"});
  left.port->on_closed();
  system.run();
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_owners{state=\"alive\"} 2")) << "the first had ended";
  const size_t its_owner = logs[0]->released.empty() ? 0 : 1;
  kill(its_owner);
  EXPECT_EQ(logs[2]->admitted, 0) << "it began with another model";
  system.advance(move_wait + seconds(1));
  EXPECT_EQ(moved.sink->count("\"owner_lost\""), 1);
}

TEST_F(OwnersTest, AStreamMayMoveToARetiredOwnerOfItsModel) {
  start();
  join({.max_streams = 1, .model_identity = "old"});
  join({.max_streams = 2, .model_identity = "old"});
  const Session first = open();   // with the second, that has more places
  const Session second = open();  // with the first
  swap({.max_streams = 8, .model_identity = "new"});
  kill(0);
  EXPECT_EQ(logs[1]->admitted, 2);
  EXPECT_EQ(logs[2]->admitted, 0);
  EXPECT_FALSE(second.sink->closed());
}

TEST_F(OwnersTest, ARemoteOneThatDiesIsForgotten) {
  start();
  join({.max_streams = 2, .is_remote = true});
  join({.max_streams = 2, .is_remote = true});
  kill(0);
  EXPECT_TRUE(status->ready());
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_owners{state=\"lost\"} 0"));
  EXPECT_TRUE(is_ready(open()));
}

TEST_F(OwnersTest, ARemoteOneThatHangsLeavesTheServerReady) {
  start();
  join({.max_streams = 2, .is_remote = true});
  join({.max_streams = 2, .is_remote = true});
  logs[0]->hung = true;
  for (int second = 0; second < 8; ++second) system.advance(seconds(1));
  EXPECT_TRUE(status->ready());
  EXPECT_FALSE(status->has_hung_owner()) << "no thread of ours hangs";
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_owner_losses_total{how=\"hung\"} 1"));
}

TEST_F(OwnersTest, ASharedOneSaysHowManyPlacesAreFree) {
  start();
  join({.max_streams = 4, .is_shared = true});
  logs[0]->admitted = 4;  // of others
  system.advance(seconds(2));
  EXPECT_EQ(status->refusal("native").value().code, "full");
  logs[0]->max_streams = 5;
  system.advance(seconds(2));
  EXPECT_FALSE(status->refusal("native"));
  EXPECT_TRUE(is_ready(open()));
  EXPECT_EQ(status->refusal("native").value().code, "full");
}

TEST_F(OwnersTest, ASharedOneThatRefusesIsFull) {
  start();
  join({.max_streams = 4, .is_shared = true});
  logs[0]->max_streams = 0;
  EXPECT_EQ(open().sink->count("\"full\""), 1);
  EXPECT_EQ(status->refusal("native").value().code, "full") << "until it says something else";
}

TEST_F(OwnersTest, AStreamWithoutAnyOwnerLeftWaitsForOneThatMayJoin) {
  rules.owners_may_join = true;
  start();
  join({.max_streams = 2, .is_remote = true});
  const Session session = open();
  kill(0);
  EXPECT_FALSE(session.sink->closed());
  join({.max_streams = 2, .is_remote = true});
  EXPECT_EQ(logs[1]->admitted, 1);
  EXPECT_FALSE(session.sink->closed());
}

}  // namespace
}  // namespace tutti::test
