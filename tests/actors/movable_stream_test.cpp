#include <gmock/gmock.h>

#include "actors/movable_stream.hpp"
#include "tests/actors/stream_fixture.hpp"

namespace tutti::test {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

/// Sessions whose owners die or hang.
class MovableStreamTest : public ActorTest {
 protected:
  /// What an owner says of the stream in its `slot`-th seat, with the name that the stream has there.
  void say(size_t owner, std::vector<Update> updates,
           std::shared_ptr<const StreamSnapshot> snapshot = nullptr, size_t slot = 0) {
    OwnerLog& log = *logs[owner];
    caf::anon_send(
        log.streams.at(slot), update_atom_v,
        StreamUpdates{make_buffer(std::move(updates)), log.options.at(slot).tag, std::move(snapshot)});
    system.run();
  }
  static Update consumed(int64_t samples) {
    Update update;
    update.kind = Update::Kind::consumed;
    update.consumed_samples = samples;
    return update;
  }
  static Update final_of(int32_t segment, int64_t event, std::string text,
                         FinalReason reason = FinalReason::endpoint) {
    Update update;
    update.kind = Update::Kind::final;
    update.segment = segment;
    update.event = event;
    update.text = std::move(text);
    update.reason = reason;
    return update;
  }
  static Update partial(std::string text, int64_t event) {
    Update update;
    update.event = event;
    update.text = std::move(text);
    return update;
  }
  static std::shared_ptr<const StreamSnapshot> snapshot_at(int64_t sample, int64_t commands = 0) {
    StreamSnapshot snapshot{.sample = sample, .commands = commands, .past = StreamSnapshot::Past{}};
    snapshot.past->features.resize(3 * 80);
    return std::make_shared<const StreamSnapshot>(std::move(snapshot));
  }
  /// Long enough for every owner to be asked, and given up.
  void wait_for_watch() {
    for (int i = 0; i < 8; ++i) system.advance(seconds(1));
  }
};

TEST_F(MovableStreamTest, ANewOwnerGetsWhatTheLastOneWasSent) {
  start({4, 4});
  Session session = open();
  session.port->on_audio(silence(32000));
  system.run();
  ASSERT_EQ(logs[0]->samples.size(), 16000U);
  kill(0);
  EXPECT_EQ(logs[1]->samples.size(), 16000U);
  EXPECT_TRUE(logs[1]->restored.empty()) << "it begins at the beginning";
  session.port->on_audio(silence(3200));
  system.run();
  EXPECT_EQ(logs[1]->samples.size(), 17600U);
  EXPECT_FALSE(session.sink->closed());
  EXPECT_EQ(session.sink->count("\"ready\""), 1);
  EXPECT_EQ(session.sink->count("error"), 0);
  EXPECT_FALSE(status->ready()) << "an owner is lost";
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_moved_streams_total 1"));
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_owner_losses_total{how=\"died\"} 1"));
}

TEST_F(MovableStreamTest, ANewOwnerGoesOnFromTheLastSnapshot) {
  start({4, 4});
  Session session = open();
  for (int i = 0; i < 10; ++i) session.port->on_audio(silence(3200));
  system.run();
  say(0, {consumed(10000)}, snapshot_at(10000));
  kill(0);
  ASSERT_EQ(logs[1]->restored.size(), 1U);
  EXPECT_EQ(logs[1]->restored[0].snapshot->sample, 10000);
  EXPECT_EQ(logs[1]->samples.size(), 6000U);
}

TEST_F(MovableStreamTest, NothingIsToldTwice) {
  start({4, 4});
  Session session = open();
  session.port->on_audio(silence(2 * 40000));
  system.run();
  say(0, {partial("HEL", 0), consumed(10000)});
  say(0, {final_of(0, 0, "HELLO"), consumed(10000)});
  const int64_t granted = session.sink->granted;
  kill(0);
  // The same again, and what is new.
  say(1, {partial("HEL", 0), consumed(10000)});
  say(1, {final_of(0, 0, "HELLO"), consumed(10000)});
  EXPECT_EQ(session.sink->count("HEL"), 2);
  EXPECT_EQ(session.sink->granted, granted);
  say(1, {partial("WOR", 1), consumed(10000)});
  EXPECT_EQ(session.sink->granted, granted + 2 * 10000);
  say(1, {final_of(1, 1, "WORLD"), consumed(10000)});
  EXPECT_EQ(session.sink->count("WOR"), 2);
  EXPECT_EQ(session.sink->count("\"final\""), 2);
}

TEST_F(MovableStreamTest, WhatAnOwnerSaysAfterItWasGivenUpIsIgnored) {
  start({4, 4});
  const Session session = open();
  logs[0]->hung = true;
  wait_for_watch();
  ASSERT_EQ(logs[1]->admitted, 1);
  EXPECT_FALSE(status->ready());
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_owner_losses_total{how=\"hung\"} 1"));
  say(0, {final_of(0, 0, "STALE")});
  EXPECT_EQ(session.sink->count("STALE"), 0);
  say(1, {final_of(0, 0, "FRESH")});
  EXPECT_EQ(session.sink->count("FRESH"), 1);
}

TEST_F(MovableStreamTest, AnOwnerThatAnswersAgainIsTakenBack) {
  start({4});
  Session session = open();
  logs[0]->hung = true;
  wait_for_watch();
  EXPECT_FALSE(status->ready());
  EXPECT_EQ(status->refusal("native").value().code, "no_device");
  EXPECT_FALSE(session.sink->closed()) << "it waits for another";
  logs[0]->hung = false;
  ASSERT_EQ(logs[0]->pings.size(), 1U) << "one at a time";
  caf::anon_send(owners[0], tick_atom_v);
  system.run();
  EXPECT_TRUE(status->ready());
  EXPECT_EQ(logs[0]->admitted, 2);
  session.port->on_audio(silence(3200));
  system.run();
  EXPECT_EQ(logs[0]->samples.size(), 1600U);
}

TEST_F(MovableStreamTest, AStreamThatAHungOwnerWasAskedForGoesToAnother) {
  start({4, 2});
  logs[0]->hung = true;
  const Session session = open();
  EXPECT_TRUE(session.sink->messages.empty());
  wait_for_watch();
  EXPECT_EQ(session.sink->count("\"ready\""), 1);
  EXPECT_EQ(logs[1]->admitted, 1);
}

TEST_F(MovableStreamTest, AnOwnerThatDiedIsReplaced) {
  replaces = true;
  start({1});
  Session session = open();
  session.port->on_audio(silence(3200));
  system.run();
  kill(0);
  system.advance(seconds(1));
  ASSERT_EQ(logs.size(), 2U);
  EXPECT_EQ(logs[1]->samples.size(), 1600U);
  EXPECT_TRUE(status->ready());
  EXPECT_FALSE(session.sink->closed());
}

TEST_F(MovableStreamTest, AnOwnerThatDiesAgainIsNotReplacedAtOnce) {
  replaces = true;
  start({1});
  kill(0);
  system.advance(seconds(1));
  ASSERT_EQ(logs.size(), 2U);
  kill(1);
  system.advance(seconds(5));
  EXPECT_EQ(logs.size(), 2U);
  system.advance(seconds(5));
  EXPECT_EQ(logs.size(), 3U);
  EXPECT_TRUE(status->ready());
}

TEST_F(MovableStreamTest, AMovedStreamWaitsForAPlaceAheadOfNewOnes) {
  rules.max_wait = seconds(60);
  start({1, 1});
  const Session first = open();
  Session second = open();
  const Session newcomer = open();
  kill(0);
  EXPECT_FALSE(first.sink->closed());
  logs[1]->max_streams = 2;
  second.port->on_closed();
  system.run();
  EXPECT_EQ(logs[1]->admitted, 2);
  EXPECT_EQ(newcomer.sink->count("\"ready\""), 0);
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_moved_streams_total 1"));
}

TEST_F(MovableStreamTest, AStreamForWhichThereIsNoPlaceEndsAndSaysWhy) {
  start({1, 1});
  const Session first = open();
  const Session second = open();
  kill(0);
  system.advance(seconds(10));
  EXPECT_FALSE(first.sink->closed());
  system.advance(seconds(10));
  EXPECT_EQ(first.sink->count("\"owner_lost\""), 1);
  EXPECT_EQ(first.sink->close_reason, CloseReason::internal);
  EXPECT_FALSE(second.sink->closed());
}

TEST_F(MovableStreamTest, AStreamThatTakesOneOwnerAfterTheOtherAlongEnds) {
  start({9, 8, 7, 6, 5});
  Session session = open();
  session.port->on_audio(silence(32000));
  system.run();
  for (size_t owner = 0; owner < 3; ++owner) {
    EXPECT_FALSE(session.sink->closed()) << owner;
    say(owner, {consumed(5000)});  // as far as the first came, and no further
    kill(owner);
  }
  EXPECT_EQ(session.sink->count("\"owner_lost\""), 1);
  EXPECT_EQ(logs[3]->admitted, 0);
}

TEST_F(MovableStreamTest, AStreamThatIsRecognizedMeanwhileMovesAnyNumberOfTimes) {
  start({9, 8, 7, 6, 5});
  Session session = open();
  session.port->on_audio(silence(32000));
  system.run();
  for (size_t owner = 0; owner < 4; ++owner) {
    say(owner, {consumed(1000 * (static_cast<int64_t>(owner) + 1))});
    kill(owner);
  }
  EXPECT_FALSE(session.sink->closed());
  EXPECT_EQ(logs[4]->samples.size(), 16000U);
}

TEST_F(MovableStreamTest, AServerThatDrainsStillMovesItsStreams) {
  start({4, 4});
  Session session = open();
  session.port->on_audio(silence(32000));
  caf::anon_send(gateway, drain_atom_v);
  system.run();
  kill(0);
  EXPECT_EQ(logs[1]->samples.size(), 16000U);
  EXPECT_FALSE(session.sink->closed());
}

// A chunk with a command behind it is told of in another way than one without.
TEST_F(MovableStreamTest, ACommandWaitsUntilTheNewOwnerHasComeAsFarAsTheLast) {
  start({4, 4});
  Session session = open();
  session.port->on_audio(silence(2 * 16000));
  system.run();
  say(0, {final_of(0, 0, "HELLO"), consumed(10240)});
  session.port->on_text(R"({"type":"finalize"})");
  session.port->on_audio(silence(2 * 8000));
  system.run();
  ASSERT_THAT(logs[0]->finalized_at, ElementsAre(16000));
  kill(0);
  EXPECT_EQ(logs[1]->samples.size(), 16000U);
  EXPECT_TRUE(logs[1]->finalized_at.empty());
  say(1, {final_of(0, 0, "HELLO"), consumed(10240)});
  EXPECT_THAT(logs[1]->finalized_at, ElementsAre(16000));
  EXPECT_EQ(logs[1]->samples.size(), 24000U);
  say(1, {final_of(1, 1, "WORLD", FinalReason::finalize), consumed(5760)}, snapshot_at(16000, 1));
  EXPECT_EQ(session.sink->count("\"final\""), 2);
}

TEST_F(MovableStreamTest, WhatCameBeforeAResetIsNotSentAgain) {
  start({4, 4});
  const auto lease = [this](size_t owner) { return StreamContext(owners[owner], {0, 1}, {}, fake_info(4)); };
  MovableStream stream(lease(0));
  stream.feed(std::vector<float>(16000), {});
  stream.reset();
  stream.feed(std::vector<float>(8000), {});
  EXPECT_EQ(stream.hear({make_buffer(std::vector{final_of(0, 0, "HELLO"), consumed(10000)})}).size(), 2U);
  ASSERT_TRUE(stream.lose_owner(Clock::now()));
  EXPECT_EQ(stream.move_to(lease(1)), 6000) << "nobody will say that they were consumed";
  system.run();
  ASSERT_EQ(logs[1]->restored.size(), 1U);
  const StreamSnapshot& begin = *logs[1]->restored[0].snapshot;
  EXPECT_EQ(begin.sample, 16000);
  EXPECT_EQ(begin.commands, 1);
  EXPECT_EQ(begin.events, 1);
  EXPECT_EQ(begin.segment, 1);
  EXPECT_FALSE(begin.past);
  EXPECT_TRUE(logs[1]->reset_at.empty());
  EXPECT_EQ(logs[1]->samples.size(), 8000U);
}

TEST_F(MovableStreamTest, HoldsNoMoreThanWhatCameSinceTheLastSnapshot) {
  start({4, 4});
  const auto lease = [this](size_t owner) { return StreamContext(owners[owner], {0, 1}, {}, fake_info(4)); };
  MovableStream stream(lease(0));
  for (int64_t fed = 0; fed < 100; ++fed) {
    stream.feed(std::vector<float>(1600), {});
    (void)stream.hear({make_buffer(std::vector{consumed(1600)}), 0, snapshot_at(1600 * fed)});
  }
  ASSERT_TRUE(stream.lose_owner(Clock::now()));
  EXPECT_EQ(stream.move_to(lease(1)), 0);
  system.run();
  EXPECT_EQ(logs[1]->samples.size(), 1600U);
}

}  // namespace
}  // namespace tutti::test
