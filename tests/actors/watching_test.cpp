#include <gmock/gmock.h>

#include "tests/actors/stream_fixture.hpp"

namespace tutti::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// One track, "caller", whose results go elsewhere, and names: "name X".
class PhoneDialect final : public proto::Dialect {
 public:
  explicit PhoneDialect(bool heard_elsewhere) : heard_elsewhere_(heard_elsewhere) {}
  [[nodiscard]] bool is_heard_elsewhere() const override { return heard_elsewhere_; }
  void on_open(proto::Actions& actions) override { actions.emplace_back(proto::OpenTrack{0, {}, "caller"}); }
  void on_text(std::string_view message, proto::Actions& actions) override {
    actions.emplace_back(proto::Announce{std::string(message)});
  }
  void on_binary(std::span<const std::byte> bytes, bool, proto::Actions& actions) override {
    actions.emplace_back(proto::TrackAudio{0, {bytes.begin(), bytes.end()}});
  }
  void on_event(int, const proto::ServerEvent&, proto::Actions&) override {}
  void on_fault(const Error&, proto::Actions&) override {}

 private:
  bool heard_elsewhere_;
};

class WatchingTest : public ActorTest {
 protected:
  void SetUp() override { start({4}); }
  // Before the actors: it is one of their handles.
  void TearDown() override {
    place.reset();
    ActorTest::TearDown();
  }

  Session open_phone(bool heard_elsewhere = true) {
    Session session;
    session.port = bridge->open_stream(
        {.session = "s", .dialect_name = "phone", .dialect = std::make_unique<PhoneDialect>(heard_elsewhere)},
        session.sink);
    system.run();
    return session;
  }

  /// The refusal's code; empty when there is none.
  std::string watch(const std::string& stream) {
    std::string refusal = "no answer";
    hub->take_place({.stream = stream, .client = {}, .form = {}, .after = {}},
                    [&](Result<std::unique_ptr<SubscriptionPlace>> answer) {
                      refusal = answer ? "" : answer.error().code;
                      if (answer) place = std::move(*answer);
                    });
    system.run();
    if (refusal.empty()) place->start(reader);
    system.run();
    return refusal;
  }

  void update(Update::Kind kind, const std::string& text = {}) {
    Update update;
    update.kind = kind;
    update.text = text;
    update.reason = FinalReason::endpoint;
    send_update(stream(), update);
    system.run();
  }

  std::shared_ptr<RecordingSink> reader = std::make_shared<RecordingSink>();
  std::unique_ptr<SubscriptionPlace> place;
};

TEST_F(WatchingTest, ASubscriberReadsWhatTheSessionHears) {
  Session session = open_phone();
  EXPECT_EQ(watch("MZ1"), "no_such_stream");
  session.port->on_text("MZ1");
  system.run();
  EXPECT_EQ(watch("MZ1"), "");
  update(Update::Kind::partial, "HEL");
  update(Update::Kind::final, "HELLO");
  update(Update::Kind::done);
  EXPECT_THAT(reader->messages,
              ElementsAre(HasSubstr(R"({"track":"caller","type":"partial")"), HasSubstr(R"("text":"HELLO")"),
                          HasSubstr(R"({"track":"caller","type":"done")")));
  EXPECT_THAT(session.sink->messages, IsEmpty());
}

TEST_F(WatchingTest, ASessionThatIsHeardElsewhereIsHeardToItsEndWhenItsClientHangsUp) {
  Session session = open_phone();
  EXPECT_EQ(watch("s"), "");
  session.port->on_audio(silence(3200));
  session.port.reset();
  system.run();
  EXPECT_EQ(logs[0]->samples.size(), 1600U);
  EXPECT_EQ(logs[0]->finished, 1);
  EXPECT_FALSE(reader->closed());
  update(Update::Kind::final, "BYE");
  update(Update::Kind::done);
  EXPECT_THAT(reader->messages, ElementsAre(HasSubstr("BYE"), HasSubstr("\"done\""), HasSubstr("\"end\"")));
  EXPECT_EQ(reader->close_reason, CloseReason::normal);
  EXPECT_THAT(logs[0]->released, testing::SizeIs(1));
}

TEST_F(WatchingTest, AFaultOfSuchAClientTooIsNotTheEndOfWhatItSaid) {
  Session session = open_phone();
  EXPECT_EQ(watch("s"), "");
  session.port->on_fault({"idle_timeout", "silent"});
  system.run();
  EXPECT_EQ(logs[0]->finished, 1);
  EXPECT_FALSE(session.sink->closed());
  update(Update::Kind::final, "BYE");
  update(Update::Kind::done);
  EXPECT_EQ(session.sink->close_reason, proto::close_reason("idle_timeout"));
  EXPECT_THAT(reader->messages, testing::Contains(HasSubstr("BYE")));
}

TEST_F(WatchingTest, AnyOtherSessionEndsWithItsClient) {
  Session session = open_phone(false);
  EXPECT_EQ(watch("s"), "");
  session.port.reset();
  system.run();
  EXPECT_EQ(logs[0]->finished, 0);
  EXPECT_THAT(reader->messages, ElementsAre(R"({"type":"end","session":"s"})"));
  EXPECT_TRUE(reader->closed());
}

TEST_F(WatchingTest, AnEndedSessionCanStillBeRead) {
  Session session = open_phone();
  update(Update::Kind::final, "HELLO");
  update(Update::Kind::done);
  session.port.reset();
  system.run();
  EXPECT_EQ(watch("s"), "");
  EXPECT_THAT(reader->messages, testing::Contains(HasSubstr("HELLO")));
}

TEST_F(WatchingTest, TellsOfTheErrorThatEndsATrack) {
  Session session = open_phone();
  EXPECT_EQ(watch("s"), "");
  caf::anon_send_exit(owners[0], caf::exit_reason::kill);
  system.run();
  EXPECT_THAT(reader->messages,
              ElementsAre(HasSubstr(R"({"track":"caller","type":"error","code":"owner_lost")")));
}

TEST_F(WatchingTest, PartialsGiveWayWhereTheHubHasTooMuchToDo) {
  const std::unique_ptr<SessionFeed> feed =
      hub->open_feed({.number = 0, .session = "s", .client = {}, .dialect = {}, .is_heard_elsewhere = false});
  ASSERT_EQ(watch("s"), "");
  for (int i = 0; i < max_unpublished + 10; ++i) feed->on_event({}, proto::Partial{});
  feed->on_event({}, proto::Final{});
  system.run();
  EXPECT_EQ(reader->partials, max_unpublished);
  EXPECT_EQ(reader->count("\"final\""), 1);
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_unpublished_events_total 10"));
  feed->on_event({}, proto::Partial{});
  system.run();
  EXPECT_EQ(reader->partials, max_unpublished + 1);
}

}  // namespace
}  // namespace tutti::test
