#include "actors/conversation.hpp"

#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <sstream>

#include "tests/actors/stream_fixture.hpp"

namespace tutti::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string name_of(const proto::ServerEvent& event) {
  constexpr const char* names[] = {"ready", "started", "stopped", "partial", "final", "done", "error"};
  const auto* error = std::get_if<proto::ErrorEvent>(&event);
  return error == nullptr ? names[event.index()] : error->error.code;
}

/// Does what its client says, and says what it is told: "open 1", "audio 1 3200", "1 final".
class PlainDialect : public proto::Dialect {
 public:
  void on_text(std::string_view message, proto::Actions& actions) override {
    std::istringstream line{std::string(message)};
    std::string word;
    int track = 0;
    size_t bytes = 0;
    line >> word >> track >> bytes;
    const std::map<std::string, std::function<proto::Action()>> words = {
        {"open",
         [&] {
           return proto::OpenTrack{track, {}};
         }},
        {"audio",
         [&] {
           return proto::TrackAudio{track, std::vector<std::byte>(bytes)};
         }},
        {"finalize", [&] { return proto::FinalizeTrack{track}; }},
        {"reset", [&] { return proto::ResetTrack{track}; }},
        {"end", [&] { return proto::EndTrack{track}; }},
        {"close",
         [&] {
           return proto::Close{CloseReason::policy, "", "bad_message"};
         }},
    };
    actions.push_back(words.at(word)());
  }
  void on_binary(std::span<const std::byte> bytes, bool ends_message, proto::Actions& actions) override {
    actions.emplace_back(proto::TrackAudio{0, {bytes.begin(), bytes.end()}});
    if (ends_message) actions.emplace_back(proto::Reply{"message"});
  }
  void on_event(int track, const proto::ServerEvent& event, proto::Actions& actions) override {
    actions.emplace_back(proto::Reply{std::to_string(track) + " " + name_of(event)});
  }
  void on_heard(int track, int64_t bytes, proto::Actions& actions) override {
    actions.emplace_back(proto::Reply{std::to_string(track) + " heard " + std::to_string(bytes)});
  }
  [[nodiscard]] std::optional<std::chrono::milliseconds> idle_limit() const override {
    return std::chrono::seconds(10);
  }
  void on_idle(proto::Actions& actions) override { actions.emplace_back(proto::Reply{"idle"}); }
  void on_fault(const Error& error, proto::Actions& actions) override {
    actions.emplace_back(proto::Reply{"fault " + error.code});
  }
};

class TextAudioDialect final : public PlainDialect {
 public:
  [[nodiscard]] bool has_audio_in_text() const override { return true; }
};

class ConversationTest : public ActorTest {
 protected:
  void SetUp() override { start({9, 9}); }

  template <class Dialect = PlainDialect>
  Session open_session() {
    Session session;
    session.port = bridge->open_stream(
        {.session = "s", .dialect_name = "plain", .dialect = std::make_unique<Dialect>()}, session.sink);
    system.run();
    return session;
  }

  void say(Session& session, const std::string& text) {
    session.port->on_text(text);
    system.run();
  }

  /// What the session was told since the last time.
  std::vector<std::string> heard(Session& session) { return std::exchange(session.sink->messages, {}); }

  OwnerLog& log() { return *logs[0]; }
};

Update update_of(Update::Kind kind, FinalReason reason = FinalReason::endpoint) {
  Update update;
  update.kind = kind;
  update.reason = reason;
  return update;
}

TEST_F(ConversationTest, MayBeReadBeforeItHasATrack) {
  const Session session = open_session();
  EXPECT_EQ(session.sink->granted, Conversation::opening_credit_bytes);
  EXPECT_EQ(log().admitted, 0);
}

TEST_F(ConversationTest, HoldsSeveralTracksOnSeveralOwners) {
  Session session = open_session();
  for (const int track : {7, 8}) say(session, "open " + std::to_string(track));
  EXPECT_THAT(heard(session), ElementsAre("7 ready", "8 ready"));
  EXPECT_EQ(session.sink->granted, Conversation::opening_credit_bytes + 2 * credit_ms * 32);
  ASSERT_EQ(logs[0]->admitted, 1);
  ASSERT_EQ(logs[1]->admitted, 1);
  // Both are slot 0 of their owner: the tag tells whose update it is.
  for (const auto& each : logs) {
    caf::anon_send(
        each->streams[0], update_atom_v,
        StreamUpdates{make_buffer(std::vector{update_of(Update::Kind::final)}), each->options[0].tag});
    system.run();
  }
  EXPECT_THAT(heard(session), ElementsAre("7 final", "8 final"));
}

TEST_F(ConversationTest, MovesOnlyTheTracksOfALostOwner) {
  Session session = open_session();
  for (const int track : {7, 8}) say(session, "open " + std::to_string(track));
  (void)heard(session);
  caf::anon_send_exit(owners[1], caf::exit_reason::kill);
  system.run();
  ASSERT_EQ(logs[0]->admitted, 2);
  caf::anon_send(
      logs[0]->streams[1], update_atom_v,
      StreamUpdates{make_buffer(std::vector{update_of(Update::Kind::final)}), logs[0]->options[1].tag});
  system.run();
  EXPECT_THAT(heard(session), ElementsAre("8 final"));
}

TEST_F(ConversationTest, OpensATrackAgainAfterItsEndOnAPlaceThatWasGivenBack) {
  Session session = open_session();
  for (int i = 0; i < 20; ++i) {
    say(session, "open 0");
    say(session, "end 0");
    StreamActor stream;
    for (const auto& each : logs) {
      if (!each->streams.empty()) stream = each->streams.back();
    }
    caf::anon_send(stream, update_atom_v,
                   StreamUpdates{make_buffer(std::vector{update_of(Update::Kind::done)}), i});
    system.run();
    for (const auto& each : logs) each->admitted = 0;
    ASSERT_THAT(heard(session), ElementsAre("0 ready", "0 done")) << i;
  }
  EXPECT_EQ(session.sink->granted, Conversation::opening_credit_bytes + credit_ms * 32);
}

TEST_F(ConversationTest, RefusesOneTrackTooMany) {
  Session session = open_session();
  for (int track = 0; track < proto::max_tracks; ++track) say(session, "open " + std::to_string(track));
  (void)heard(session);
  say(session, "open 9");
  EXPECT_THAT(heard(session), ElementsAre("9 too_many_tracks"));
  EXPECT_FALSE(session.sink->closed());
}

TEST_F(ConversationTest, KeepsAudioThatCameBeforeItsPlace) {
  Session session = open_session();
  session.port->on_text("open 0");
  session.port->on_audio(silence(3200));
  session.port->on_text("finalize 0");
  system.run();
  EXPECT_EQ(log().samples.size(), 1600U);
  EXPECT_THAT(log().finalized_at, ElementsAre(1600));
}

TEST_F(ConversationTest, TellsWhatWasHeardOnceNothingMoreCanComeOfIt) {
  Session session = open_session();
  say(session, "open 0");
  (void)heard(session);
  session.port->on_audio(silence(3200));
  system.run();
  EXPECT_THAT(heard(session), ElementsAre("message", "0 heard 3200"));
  session.port->on_audio(silence(32000));  // a chunk is under way
  system.run();
  EXPECT_THAT(heard(session), ElementsAre("message"));
  consume(log(), log().streams[0], 10240);
  system.run();
  EXPECT_THAT(heard(session), ElementsAre("0 heard 35200"));
}

TEST_F(ConversationTest, AFinalizeIsHeardWithItsFinal) {
  Session session = open_session();
  say(session, "open 0");
  session.port->on_audio(silence(3200));
  say(session, "finalize 0");
  session.port->on_audio(silence(3200));
  system.run();
  (void)heard(session);
  send_update(log().streams[0], update_of(Update::Kind::final, FinalReason::finalize));
  system.run();
  EXPECT_THAT(heard(session), ElementsAre("0 final", "0 heard 6400"));
}

TEST_F(ConversationTest, CountsTextThatCarriesAudioAgainstTheCredit) {
  Session session = open_session<TextAudioDialect>();
  say(session, "open 0");
  const int64_t before = session.sink->granted;
  const std::string message = "audio 0 3200" + std::string(4000, ' ');
  say(session, message);
  // Back at once: what was no audio. The rest, when it is recognized.
  EXPECT_EQ(session.sink->granted - before, static_cast<int64_t>(message.size()) - 3200);
  consume(log(), log().streams[0], 1600);
  system.run();
  EXPECT_EQ(session.sink->granted - before, static_cast<int64_t>(message.size()));
  for (int i = 0; i < 20; ++i) say(session, message);
  EXPECT_FALSE(session.sink->closed());
}

TEST_F(ConversationTest, EndsASessionWhoseTextExceedsItsCredit) {
  Session session = open_session<TextAudioDialect>();
  const std::string message = "audio 0 3200" + std::string(5000, ' ');
  for (int i = 0; i < 3; ++i) session.port->on_text(message);
  system.run();
  EXPECT_THAT(heard(session), testing::Contains("fault overrun"));
  EXPECT_EQ(session.sink->close_reason, CloseReason::policy);
}

TEST_F(ConversationTest, ACommandCostsItsMessageUntilItIsPassedOn) {
  Session session = open_session<TextAudioDialect>();
  say(session, "open 0");
  say(session, "finalize 0");  // its final does not come
  const int64_t before = session.sink->granted;
  for (int i = 0; i < 100; ++i) say(session, "finalize 0");
  EXPECT_EQ(session.sink->granted, before);
  EXPECT_EQ(log().finalized_at.size(), 1U);
}

TEST_F(ConversationTest, ResetsInOrder) {
  Session session = open_session();
  say(session, "open 0");
  session.port->on_audio(silence(3200));
  say(session, "reset 0");
  EXPECT_EQ(log().samples.size(), 1600U);
  EXPECT_THAT(log().reset_at, ElementsAre(1600));
}

TEST_F(ConversationTest, IgnoresWhatNamesNoTrack) {
  Session session = open_session();
  const int64_t granted = session.sink->granted;
  for (const char* text : {"finalize 3", "end 3", "reset 3", "audio 3 100"}) say(session, text);
  session.port->on_audio(silence(100));
  system.run();
  EXPECT_THAT(heard(session), ElementsAre("message"));
  EXPECT_EQ(session.sink->granted, granted + 100);
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_ignored_messages_total{kind=\"audio_after_eof\"} 2"));
}

TEST_F(ConversationTest, SaysNothingAfterItsClose) {
  Session session = open_session();
  session.port->on_text("close");
  session.port->on_text("open 0");
  system.run();
  EXPECT_THAT(heard(session), IsEmpty());
  EXPECT_EQ(session.sink->closes, 1);
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_failed_sessions_total{dialect=\"plain\"} 1"));
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_open_sessions{dialect=\"plain\"} 0"));
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_errors_total{code=\"bad_message\",dialect=\"plain\"} 1"));
}

TEST_F(ConversationTest, EndsAtALimitWithItsLastResults) {
  Session session = open_session();
  say(session, "open 0");
  session.port->on_fault({"stream_too_long", "a session may be open for 5 s"});
  system.run();
  EXPECT_EQ(logs[0]->finished, 1);
  EXPECT_FALSE(session.sink->closed());
  caf::anon_send(
      logs[0]->streams[0], update_atom_v,
      StreamUpdates{make_buffer(std::vector{update_of(Update::Kind::final), update_of(Update::Kind::done)}),
                    0});
  system.run();
  EXPECT_EQ(session.sink->count("0 final"), 1);
  EXPECT_EQ(session.sink->close_reason, CloseReason::policy);
  EXPECT_EQ(session.sink->close_message, "a session may be open for 5 s");
}

TEST_F(ConversationTest, CountsTheAudioThatItsClientHasRecognized) {
  Session session = open_session();
  say(session, "open 0");
  say(session, "audio 0 16000");
  say(session, "end 0");
  EXPECT_NEAR(session.sink->audio_seconds, 0.5, 0.01);
}

TEST_F(ConversationTest, DrainsWhenAllTracksAreDone) {
  Session session = open_session();
  for (const int track : {0, 1}) say(session, "open " + std::to_string(track));
  caf::anon_send(gateway, drain_atom_v);
  system.run();
  system.advance(std::chrono::seconds(11));
  EXPECT_EQ(logs[0]->finished + logs[1]->finished, 2);
  for (int tag = 0; tag < 2; ++tag) {
    EXPECT_FALSE(session.sink->closed());
    caf::anon_send(logs[0]->streams[0], update_atom_v,
                   StreamUpdates{make_buffer(std::vector{update_of(Update::Kind::done)}), tag});
    system.run();
  }
  EXPECT_EQ(session.sink->close_reason, CloseReason::going_away);
}

TEST_F(ConversationTest, TellsItsSessionWhileItsClientWaitsForResults) {
  Session session = open_session();
  say(session, "open 0");
  EXPECT_EQ(session.sink->waits, 0);
  say(session, "end 0");
  EXPECT_EQ(session.sink->waits, 1);
  send_update(stream(), update_of(Update::Kind::done));
  system.run();
  EXPECT_EQ(session.sink->waits, 0) << "it may say what it wants next";
}

/// A session by itself, whose tracks get no place until a test says so.
class SilentClient : public testing::Test {
 protected:
  using seconds = std::chrono::seconds;

  SilentClient() {
    conversation.open();
    start = Clock::now();
  }

  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  std::shared_ptr<Inbox> inbox = std::make_shared<Inbox>();
  Conversation conversation{{.session = "s",
                             .dialect_name = "plain",
                             .dialect = std::make_shared<PlainDialect>(),
                             .sink = sink,
                             .inbox = inbox,
                             .metrics = std::make_shared<Metrics>()},
                            {.ask = [](const PlaceRequest&) {}, .give_back = [](int) {}}};
  Clock::time_point start;
};

TEST_F(SilentClient, IsToldOfToItsDialect) {
  EXPECT_LE(conversation.check_idle(start + seconds(9)), start + seconds(10));
  EXPECT_THAT(sink->messages, IsEmpty());
  EXPECT_EQ(conversation.check_idle(start + seconds(11)), start + seconds(21));
  EXPECT_THAT(sink->messages, ElementsAre("idle"));
  ++inbox->audio_messages;
  conversation.on_audio({make_buffer(silence(1)), start + seconds(15)});
  EXPECT_EQ(conversation.check_idle(start + seconds(21)), start + seconds(25));
  inbox->credit_bytes = 0;  // it is not read: it could not be heard
  EXPECT_EQ(conversation.check_idle(start + seconds(60)), start + seconds(70));
  EXPECT_EQ(sink->count("idle"), 1);
}

TEST_F(SilentClient, IsNotMindedWhileItWaitsForItsResults) {
  // It has no place yet.
  for (const char* text : {"open 0", "end 0"}) {
    ++inbox->control_messages;
    conversation.on_text({text, start});
  }
  EXPECT_EQ(conversation.check_idle(start + seconds(60)), start + seconds(70));
  EXPECT_THAT(sink->messages, IsEmpty());
  conversation.on_admission(0, tl::unexpected(Error{"full", "no slot is free"}));
  EXPECT_THAT(std::exchange(sink->messages, {}), ElementsAre("0 full"));
  EXPECT_EQ(conversation.check_idle(start + seconds(71)), start + seconds(81));
  EXPECT_THAT(sink->messages, ElementsAre("idle")) << "nothing more comes of itself";
}

}  // namespace
}  // namespace tutti::test
