#include "actors/event_hub.hpp"

#include <gmock/gmock.h>

#include "tests/actors/recording_sink.hpp"

namespace tutti::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr uint64_t the_session = 1;

proto::Final final_of(std::string text, int segment = 0) {
  return {.segment = segment,
          .text = std::move(text),
          .start = 0,
          .end = 1,
          .confidence = 0.5F,
          .has_words = false,
          .words = {},
          .reason = "endpoint"};
}

/// A hub with one session, "s", of the key "alice".
class EventHubTest : public testing::Test {
 protected:
  void SetUp() override { open(the_session, "s", "alice"); }

  void open(uint64_t number, const std::string& session, const std::string& client) {
    hub.open({.number = number,
              .session = session,
              .client = client,
              .dialect = "d",
              .is_heard_elsewhere = false});
  }

  struct Reader {
    uint64_t place;
    std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  };

  static SubscriptionRequest request(const std::string& stream, const std::string& client = "alice") {
    return {
        .stream = stream, .client = client, .form = proto::SubscriberForm::websocket, .after = std::nullopt};
  }

  Reader subscribe(const SubscriptionRequest& wanted) {
    Reader reader{hub.take_place(wanted).value()};
    hub.start(reader.place, reader.sink);
    return reader;
  }
  Reader subscribe() { return subscribe(request("s")); }

  std::string refusal(const SubscriptionRequest& wanted) {
    const auto place = hub.take_place(wanted);
    return place ? "none" : place.error().code;
  }

  void say(const proto::ServerEvent& event, int channel = 0, const std::string& label = {}) {
    hub.publish(the_session, {.channel = channel, .label = label}, event);
  }

  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
  EventHubLimits limits{.max_subscribers = 3,
                        .max_subscribers_per_stream = 2,
                        .max_kept_bytes = 64 << 10,
                        .max_ended = 2,
                        .keep_ended = std::chrono::seconds(60)};
  EventHub hub{limits, metrics};
  Clock::time_point now = Clock::now();
};

TEST_F(EventHubTest, TellsItsSubscribersWhatIsHeardAndOfWhichTrack) {
  const Reader first = subscribe();
  const Reader second = subscribe();
  say(proto::Partial{.segment = 0, .text = "HEL", .start = 0, .end = 1}, 0, "inbound");
  say(final_of("HELLO"), 1);
  EXPECT_THAT(
      first.sink->messages,
      ElementsAre(R"({"track":"inbound","type":"partial","segment":0,"text":"HEL","start":0.00,"end":1.00})",
                  HasSubstr(R"({"channel":1,"type":"final","segment":0,"text":"HELLO")")));
  EXPECT_EQ(first.sink->partials, 1);
  EXPECT_EQ(second.sink->messages, first.sink->messages);
}

TEST_F(EventHubTest, TellsNobodyThatATrackIsReady) {
  const Reader reader = subscribe();
  say(proto::Ready{});
  EXPECT_THAT(reader.sink->messages, IsEmpty());
}

TEST_F(EventHubTest, BeginsWithTheFinalsSoFarForWhoComesLate) {
  say(proto::Partial{});
  say(final_of("ONE"));
  const Reader reader = subscribe();
  say(final_of("TWO"));
  EXPECT_THAT(reader.sink->messages, ElementsAre(HasSubstr("ONE"), HasSubstr("TWO")));
}

TEST_F(EventHubTest, MissesNothingBetweenPlaceAndStart) {
  Reader reader{hub.take_place(request("s")).value()};
  say(final_of("ONE"));
  hub.start(reader.place, reader.sink);
  EXPECT_THAT(reader.sink->messages, ElementsAre(HasSubstr("ONE")));
}

TEST_F(EventHubTest, SaysHowManyEventsAreNotKeptAnyMore) {
  for (int i = 0; i < static_cast<int>(max_kept_events) + 6; ++i) say(final_of("X", i));
  const Reader reader = subscribe();
  ASSERT_EQ(reader.sink->messages.size(), max_kept_events + 1);
  EXPECT_EQ(reader.sink->messages[0], R"({"type":"missed","count":6})");
  EXPECT_THAT(reader.sink->messages[1], HasSubstr(R"("segment":6,)"));
}

TEST_F(EventHubTest, KeepsNoMoreBytesThanAllowedButTheNewest) {
  for (int i = 0; i < 4; ++i) say(final_of(std::string(20 << 10, 'x'), i));
  EXPECT_EQ(subscribe().sink->messages.size(), 4U);  // that one is missed, and three
  say(final_of(std::string(100 << 10, 'x'), 4));
  const Reader reader = subscribe();
  EXPECT_THAT(reader.sink->messages,
              ElementsAre(R"({"type":"missed","count":4})", HasSubstr(R"("segment":4,)")));
}

TEST_F(EventHubTest, GoesOnWhereAReaderLeftOff) {
  for (const char* text : {"ONE", "TWO", "THREE"}) say(final_of(text));
  auto wanted = request("s");
  wanted.after = {.session = "s", .number = 2};
  EXPECT_THAT(subscribe(wanted).sink->messages, ElementsAre(HasSubstr("THREE")));
  wanted.after->session = "another";
  EXPECT_EQ(subscribe(wanted).sink->messages.size(), 3U);
}

TEST_F(EventHubTest, NumbersInAnEventStreamWhatCanBeReadAgain) {
  auto wanted = request("s");
  wanted.form = proto::SubscriberForm::event_stream;
  const Reader reader = subscribe(wanted);
  say(proto::Partial{});
  say(final_of("ONE"));
  EXPECT_THAT(reader.sink->messages, ElementsAre(testing::StartsWith("event: partial\n"),
                                                 testing::StartsWith("id: s:1\nevent: final\n")));
}

TEST_F(EventHubTest, ClosesItsSubscribersWhenTheSessionEnds) {
  const Reader reader = subscribe();
  say(proto::Done{.audio_seconds = 1});
  hub.end(the_session, now);
  EXPECT_THAT(reader.sink->messages, ElementsAre(HasSubstr("done"), R"({"type":"end","session":"s"})"));
  EXPECT_EQ(reader.sink->close_reason, CloseReason::normal);
  EXPECT_EQ(reader.sink->closes, 1);
}

TEST_F(EventHubTest, CanBeReadForAWhileAfterTheEnd) {
  say(final_of("ONE"));
  hub.end(the_session, now);
  const Reader reader = subscribe();
  EXPECT_THAT(reader.sink->messages, ElementsAre(HasSubstr("ONE"), HasSubstr("\"end\"")));
  EXPECT_TRUE(reader.sink->closed());
  EXPECT_EQ(hub.forget(now + std::chrono::seconds(59)), now + std::chrono::seconds(60));
  EXPECT_EQ(refusal(request("s")), "none");
  EXPECT_EQ(hub.forget(now + std::chrono::seconds(60)), std::nullopt);
  EXPECT_EQ(refusal(request("s")), "no_such_stream");
}

TEST_F(EventHubTest, SendsAwayWhoHasReadAllOfAnEndedSession) {
  say(final_of("ONE"));
  hub.end(the_session, now);
  auto wanted = request("s");
  wanted.after = {.session = "s", .number = 2};
  EXPECT_EQ(refusal(wanted), "nothing_new");
  EXPECT_THAT(metrics->text(), Not(HasSubstr("nothing_new")));
}

TEST_F(EventHubTest, KeepsOnlyTheNewestOfTheEndedThatSaidSomething) {
  hub.end(the_session, now);
  EXPECT_EQ(refusal(request("s")), "no_such_stream");
  for (uint64_t number = 2; number < 5; ++number) {
    open(number, "s" + std::to_string(number), "alice");
    hub.publish(number, {}, final_of("X"));
    hub.end(number, now);
  }
  EXPECT_EQ(refusal(request("s2")), "no_such_stream");
  EXPECT_EQ(refusal(request("s3")), "none");
  EXPECT_EQ(refusal(request("s4")), "none");
}

TEST_F(EventHubTest, FindsASessionByItsNames) {
  hub.announce(the_session, "MZ1");
  hub.announce(the_session, "CA1");
  EXPECT_EQ(refusal(request("MZ1")), "none");
  EXPECT_EQ(refusal(request("CA1")), "none");
  EXPECT_EQ(refusal(request("XX1")), "no_such_stream");
}

TEST_F(EventHubTest, TakesOnlyAFewNamesOfASession) {
  for (int i = 0; i < 100; ++i) hub.announce(the_session, "name" + std::to_string(i));
  EXPECT_EQ(refusal(request("name" + std::to_string(proto::max_names - 1))), "none");
  EXPECT_EQ(refusal(request("name" + std::to_string(proto::max_names))), "no_such_stream");
}

TEST_F(EventHubTest, FindsTheNewestOfSeveralThatShareAName) {
  hub.announce(the_session, "call");
  open(2, "s2", "alice");
  hub.announce(2, "call");
  const Reader reader = subscribe(request("call"));
  hub.publish(2, {}, final_of("NEW"));
  say(final_of("OLD"));
  EXPECT_THAT(reader.sink->messages, ElementsAre(HasSubstr("NEW")));
  // Its name is not the older session's to give up.
  hub.end(the_session, now);
  (void)hub.forget(now + std::chrono::hours(1));
  EXPECT_EQ(refusal(request("call")), "none");
}

TEST_F(EventHubTest, LetsNobodyTakeTheNameThatASessionHasOfItsOwn) {
  open(2, "s2", "alice");
  hub.announce(2, "s");
  const Reader reader = subscribe(request("s"));
  say(final_of("MINE"));
  EXPECT_THAT(reader.sink->messages, ElementsAre(HasSubstr("MINE")));
}

TEST_F(EventHubTest, ShowsAKeyItsOwnSessionsAlone) {
  hub.announce(the_session, "call");
  EXPECT_EQ(refusal(request("s", "bob")), "no_such_stream");
  EXPECT_EQ(refusal(request("call", "bob")), "no_such_stream");
  open(2, "s2", "bob");
  hub.announce(2, "call");
  const Reader reader = subscribe(request("call", "alice"));
  say(final_of("OF ALICE"));
  EXPECT_THAT(reader.sink->messages, ElementsAre(HasSubstr("OF ALICE")));
}

TEST_F(EventHubTest, ShowsEveryKeyWhatCameInWithoutOne) {
  open(2, "s2", "");
  EXPECT_EQ(refusal(request("s2", "alice")), "none");
  EXPECT_EQ(refusal(request("s2", "")), "none");
  EXPECT_EQ(refusal(request("s", "")), "no_such_stream");
}

TEST_F(EventHubTest, HasAPlaceForSoManyAndNoMore) {
  const Reader first = subscribe();
  (void)subscribe();
  EXPECT_EQ(refusal(request("s")), "too_many_subscribers");  // of one stream
  open(2, "s2", "alice");
  EXPECT_EQ(refusal(request("s2")), "none");
  EXPECT_EQ(refusal(request("s2")), "too_many_subscribers");  // of all
  hub.give_back(first.place);
  EXPECT_EQ(refusal(request("s2")), "none");
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_open_subscribers 3"));
  EXPECT_THAT(metrics->text(),
              HasSubstr("tutti_refused_subscribers_total{reason=\"too_many_subscribers\"} 2"));
}

TEST_F(EventHubTest, TellsNothingToWhoHasLeft) {
  const Reader reader = subscribe();
  hub.give_back(reader.place);
  say(final_of("ONE"));
  EXPECT_THAT(reader.sink->messages, IsEmpty());
  EXPECT_EQ(reader.sink.use_count(), 1);
}

TEST_F(EventHubTest, ClosesWhoStartsTooLongAfterTheEnd) {
  const Reader reader{hub.take_place(request("s")).value()};
  hub.end(the_session, now);
  (void)hub.forget(now + std::chrono::hours(1));
  hub.start(reader.place, reader.sink);
  EXPECT_EQ(reader.sink->close_reason, CloseReason::try_again_later);
  hub.give_back(reader.place);
}

TEST(EventHub, ClosesItsSubscribersWithItself) {
  const auto metrics = std::make_shared<Metrics>();
  const auto sink = std::make_shared<RecordingSink>();
  {
    EventHub hub({}, metrics);
    hub.open({.number = 1, .session = "s", .client = {}, .dialect = {}, .is_heard_elsewhere = false});
    hub.start(hub.take_place({.stream = "s", .client = {}, .form = {}, .after = {}}).value(), sink);
  }
  EXPECT_EQ(sink->close_reason, CloseReason::going_away);
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_open_subscribers 0"));
}

struct RecordingCallback final : CallbackPort {
  void post(std::string id, std::string body) override { posts.emplace_back(std::move(id), std::move(body)); }
  std::vector<std::pair<std::string, std::string>> posts;
};

/// What is posted of a session that says something and ends.
std::vector<std::pair<std::string, std::string>> posts_of(bool all_sessions, bool is_heard_elsewhere) {
  const auto port = std::make_shared<RecordingCallback>();
  EventHub hub({}, std::make_shared<Metrics>(), {.port = port, .all_sessions = all_sessions});
  hub.open({.number = 1,
            .session = "s",
            .client = "alice",
            .dialect = "twilio",
            .is_heard_elsewhere = is_heard_elsewhere});
  hub.announce(1, "MZ1");
  hub.publish(1, {.channel = 0, .label = "inbound"}, proto::Partial{});
  hub.publish(1, {.channel = 0, .label = "inbound"}, proto::Done{.audio_seconds = 1});
  hub.end(1, Clock::now());
  return port->posts;
}

TEST(EventHub, CallsBackWithWhatIsKeptOfSessionsThatAreHeardElsewhere) {
  EXPECT_THAT(posts_of(false, true),
              ElementsAre(testing::Pair(
                              "s:1", R"({"session":"s","names":["MZ1"],"dialect":"twilio","client":"alice",)"
                                     R"("number":1,"event":{"track":"inbound","type":"done",)"
                                     R"("audio_seconds":1.00}})"),
                          testing::Pair("s:2", HasSubstr(R"("event":{"type":"end","session":"s"}})"))));
}

TEST(EventHub, CallsBackWithOthersWhenItIsToldSo) {
  EXPECT_THAT(posts_of(false, false), IsEmpty());
  EXPECT_THAT(posts_of(true, false), testing::SizeIs(2));
}

}  // namespace
}  // namespace tutti::test
