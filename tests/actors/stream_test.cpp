#include <gmock/gmock.h>

#include "actors/inbox.hpp"
#include "tests/actors/stream_fixture.hpp"

namespace tutti::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class StreamTest : public ActorTest {
 protected:
  void SetUp() override { start({8}); }
  OwnerLog& log() { return *logs[0]; }
};

Update final_update(FinalReason reason) {
  Update update;
  update.kind = Update::Kind::final;
  update.reason = reason;
  return update;
}

Update done_update(int64_t audio_samples) {
  Update update;
  update.kind = Update::Kind::done;
  update.audio_samples = audio_samples;
  return update;
}

TEST_F(StreamTest, SaysReadyAndGrantsItsCredit) {
  const Session session = open("encoding=mulaw&sample_rate=8000");
  ASSERT_EQ(session.sink->messages.size(), 1U);
  EXPECT_THAT(session.sink->messages[0], HasSubstr("\"ready\""));
  EXPECT_THAT(session.sink->messages[0], HasSubstr("\"model\":\"fake\""));
  EXPECT_EQ(session.sink->granted, credit_ms * 8);
}

TEST_F(StreamTest, RefusesARequestItCannotRead) {
  const Session session = open("encoding=mp17");
  EXPECT_EQ(session.sink->count("bad_encoding"), 1);
  EXPECT_EQ(session.sink->close_reason, CloseReason::policy);
  EXPECT_EQ(log().admitted, 0);
}

TEST_F(StreamTest, EndsSegmentsAsTheServerDoesWhereItsClientDoesNotSay) {
  open();
  open("endpointing=300&vad_events=true&interim=false");
  open("endpointing=false&max_segment=9000");
  const EndpointRules server;
  const auto& options = log().options;
  EXPECT_EQ(options[0].endpoint.silence_after_speech_ms, server.silence_after_speech_ms);
  EXPECT_EQ(options[0].endpoint.long_silence_ms, server.long_silence_ms);
  EXPECT_EQ(options[0].endpoint.max_segment_ms, server.max_segment_ms);
  EXPECT_FALSE(options[0].voice_events);
  EXPECT_EQ(options[1].endpoint.silence_after_speech_ms, 300);
  EXPECT_EQ(options[1].endpoint.max_segment_ms, server.max_segment_ms);
  EXPECT_TRUE(options[1].voice_events);
  EXPECT_EQ(options[2].endpoint.silence_after_speech_ms, 0);
  EXPECT_EQ(options[2].endpoint.long_silence_ms, 0);
  EXPECT_EQ(options[2].endpoint.max_segment_ms, 9000);
}

TEST_F(StreamTest, TellsWhenSpeechStartsAndStops) {
  const Session session = open("vad_events=true");
  Update update;
  update.kind = Update::Kind::speech_started;
  update.start_sample = 4000;
  send_update(stream(), update);
  update.kind = Update::Kind::speech_stopped;
  update.start_sample = 20000;
  send_update(stream(), update);
  system.run();
  ASSERT_EQ(session.sink->messages.size(), 3U);
  EXPECT_EQ(session.sink->messages[1], R"({"type":"speech_started","time":0.25})");
  EXPECT_EQ(session.sink->messages[2], R"({"type":"speech_stopped","time":1.25})");
}

TEST_F(StreamTest, FeedsAudioAndReturnsCreditAsItIsConsumed) {
  Session session = open();
  session.port->on_audio(silence(32000));
  system.run();
  EXPECT_EQ(log().samples.size(), 16000U);
  EXPECT_EQ(session.sink->granted, credit_ms * 32);
  consume(log(), stream(), 10240);
  system.run();
  EXPECT_EQ(session.sink->granted, credit_ms * 32 + 20480);
}

TEST_F(StreamTest, JoinsTinyMessagesBeforeTheyReachTheOwner) {
  Session session = open();
  for (int i = 0; i < 3200; ++i) session.port->on_audio(silence(1));
  system.run();
  EXPECT_EQ(log().samples.size(), 1600U);
  EXPECT_EQ(log().feeds, 10);
}

TEST_F(StreamTest, FeedsALargeMessageInTurns) {
  Session session = open();
  session.port->on_audio(silence(10 * 32000));  // five times the credit, in one message
  system.run();
  const int64_t window = credit_ms * 16;
  for (int i = 0; i < 20; ++i) {
    ASSERT_LE(log().most_unconsumed, window + 1600);
    consume(log(), stream(), std::min<int64_t>(log().unconsumed, 16000));
    system.run();
  }
  EXPECT_EQ(log().samples.size(), 160000U);
  EXPECT_FALSE(session.sink->closed());
}

TEST_F(StreamTest, EndsASessionThatSendsBeyondItsCredit) {
  Session session = open();
  const int64_t message = 3200;
  // The stream does not run meanwhile: this is what its mailbox can be made to hold.
  for (int i = 0; i < 1000; ++i) session.port->on_audio(silence(message));
  system.run();
  EXPECT_EQ(session.sink->count("\"overrun\""), 1);
  EXPECT_EQ(session.sink->close_reason, CloseReason::policy);
  EXPECT_LE(log().samples.size() * 2, credit_ms * 32U);
}

TEST_F(StreamTest, HoldsNoMoreInItsMailboxThanItsCredit) {
  Session session = open();
  const int message = 320;
  const int allowed = credit_ms * 32 / message;
  for (int i = 0; i < allowed; ++i) session.port->on_audio(silence(message));
  for (int i = 0; i < max_control_messages; ++i) session.port->on_text(R"({"type":"keepalive"})");
  system.run();
  EXPECT_FALSE(session.sink->closed());
  EXPECT_EQ(metrics->stream_mailbox_high_water(), allowed + max_control_messages);
  EXPECT_EQ(log().samples.size() * 2, credit_ms * 32U);

  session.port->on_audio(silence(1));
  system.run();
  EXPECT_EQ(session.sink->count("\"overrun\""), 1);
  EXPECT_LE(metrics->stream_mailbox_high_water(), allowed + max_control_messages);
}

TEST_F(StreamTest, EndsASessionThatFloodsItWithMessagesOfOneByte) {
  Session session = open("sample_rate=384000");
  for (int i = 0; i <= max_audio_messages; ++i) session.port->on_audio(silence(1));
  system.run();
  EXPECT_EQ(session.sink->count("\"overrun\""), 1);
}

TEST_F(StreamTest, EndsASessionWithTooManyUnprocessedControlMessages) {
  Session session = open();
  for (int i = 0; i <= max_control_messages; ++i) session.port->on_text(R"({"type":"keepalive"})");
  system.run();
  EXPECT_EQ(session.sink->count("\"overrun\""), 1);
  EXPECT_EQ(session.sink->close_reason, CloseReason::policy);
}

TEST_F(StreamTest, CountsAControlMessageOnlyUntilItIsProcessed) {
  Session session = open();
  for (int i = 0; i < 100; ++i) {
    session.port->on_text(R"({"type":"keepalive"})");
    system.run();
  }
  EXPECT_FALSE(session.sink->closed());
}

TEST_F(StreamTest, ReportsMalformedTextAndGoesOn) {
  Session session = open();
  session.port->on_text("finalize please");
  session.port->on_text(R"({"type":"sing"})");
  session.port->on_audio(silence(3200));
  system.run();
  EXPECT_EQ(session.sink->count("\"bad_json\""), 1);
  EXPECT_EQ(session.sink->count("\"unknown_type\""), 1);
  EXPECT_FALSE(session.sink->closed());
  EXPECT_EQ(log().samples.size(), 1600U);
}

TEST_F(StreamTest, FinalizeFollowsAllAudioBeforeItIncludingTheResamplersTail) {
  Session session = open("sample_rate=8000");
  session.port->on_audio(silence(2 * 4000));
  session.port->on_text(R"({"type":"finalize"})");
  session.port->on_audio(silence(2 * 4000));
  system.run();
  EXPECT_THAT(log().finalized_at, ElementsAre(8000));
}

TEST_F(StreamTest, SendsTheNextFinalizeAfterTheFinalOfTheLast) {
  Session session = open();
  session.port->on_text(R"({"type":"finalize"})");
  session.port->on_text(R"({"type":"finalize"})");
  system.run();
  EXPECT_EQ(log().finalized_at.size(), 1U);
  send_update(stream(), final_update(FinalReason::endpoint));
  system.run();
  EXPECT_EQ(log().finalized_at.size(), 1U);
  send_update(stream(), final_update(FinalReason::finalize));
  system.run();
  EXPECT_EQ(log().finalized_at.size(), 2U);
}

TEST_F(StreamTest, EofEndsWithDoneAndANormalClose) {
  Session session = open();
  session.port->on_audio(silence(32000));
  session.port->on_text(R"({"type":"eof"})");
  system.run();
  EXPECT_EQ(log().finished, 1);
  send_update(stream(), final_update(FinalReason::eof));
  send_update(stream(), done_update(16000));
  system.run();
  EXPECT_EQ(session.sink->count("\"final\""), 1);
  EXPECT_THAT(session.sink->messages.back(), HasSubstr("\"done\""));
  EXPECT_EQ(session.sink->close_reason, CloseReason::normal);
  EXPECT_EQ(log().released.size(), 1U);
}

TEST_F(StreamTest, IgnoresAudioAfterEofAndKeepsReading) {
  Session session = open();
  session.port->on_text(R"({"type":"eof"})");
  system.run();
  const int64_t granted = session.sink->granted;
  session.port->on_audio(silence(5000));
  system.run();
  EXPECT_TRUE(log().samples.empty());
  EXPECT_EQ(session.sink->granted, granted + 5000);
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_ignored_messages_total{kind=\"audio_after_eof\"} 1"));
}

TEST_F(StreamTest, IgnoresControlMessagesAfterEof) {
  Session session = open();
  for (const char* text : {R"({"type":"eof"})", R"({"type":"eof"})", R"({"type":"finalize"})"}) {
    session.port->on_text(text);
  }
  system.run();
  EXPECT_EQ(log().finished, 1);
  EXPECT_TRUE(log().finalized_at.empty());
}

TEST_F(StreamTest, ActsOnCommandsThatCameBeforeItsPlace) {
  Session session;
  session.port = bridge->open_stream(native_session(""), session.sink);
  session.port->on_text(R"({"type":"eof"})");
  system.run();
  EXPECT_EQ(log().finished, 1);
}

TEST_F(StreamTest, TellsTimesOnTheSampleClock) {
  const Session session = open();
  Update update = final_update(FinalReason::endpoint);
  update.segment = 2;
  update.text = "HELLO";
  const int64_t day = int64_t{86400} * 16000;
  update.segment_sample = day;
  update.start_sample = day + 640;
  update.end_sample = day + 3 * 640;
  update.words = {{.text = "HELLO", .first_frame = 1, .last_frame = 2, .confidence = 0.5F},
                  {.text = "stale", .first_frame = 7, .last_frame = 9, .confidence = 0.5F}};
  update.word_count = 1;
  send_update(stream(), update);
  system.run();
  const std::string& message = session.sink->messages.back();
  EXPECT_THAT(message, HasSubstr("\"segment\":2"));
  EXPECT_THAT(message, HasSubstr("\"word\":\"HELLO\""));
  EXPECT_THAT(message, HasSubstr("86400.04"));
  EXPECT_THAT(message, HasSubstr("86400.12"));
  EXPECT_THAT(message, Not(HasSubstr("stale")));
}

TEST_F(StreamTest, MarksPartialsForTheSessionsQueue) {
  const Session session = open();
  Update update;
  update.kind = Update::Kind::partial;
  update.text = "HEL";
  send_update(stream(), update);
  send_update(stream(), final_update(FinalReason::endpoint));
  system.run();
  EXPECT_EQ(session.sink->partials, 1);
  EXPECT_EQ(session.sink->count("\"partial\""), 1);
}

TEST_F(StreamTest, AnEngineErrorEndsOnlyItsOwnStream) {
  const Session ill = open();
  const Session well = open();
  Update update;
  update.kind = Update::Kind::error;
  update.text = "a value is not finite";
  send_update(stream(0), update);
  system.run();
  EXPECT_EQ(ill.sink->count("not finite"), 1);
  EXPECT_EQ(ill.sink->close_reason, CloseReason::internal);
  EXPECT_FALSE(well.sink->closed());
}

TEST_F(StreamTest, IsToldWhenItsOwnerDies) {
  const Session session = open();
  caf::anon_send_exit(owners[0], caf::exit_reason::kill);
  system.run();
  EXPECT_EQ(session.sink->count("\"owner_lost\""), 1);
  EXPECT_EQ(session.sink->close_reason, CloseReason::internal);
  EXPECT_FALSE(status->ready());
}

TEST_F(StreamTest, ReleasesItsPlaceWhenThePeerIsGone) {
  Session session = open();
  session.port->on_closed();
  system.run();
  EXPECT_THAT(log().released, ElementsAre(StreamKey{0, 1}));
  EXPECT_FALSE(session.sink->closed());
  log().streams.clear();
  EXPECT_EQ(session.sink.use_count(), 1) << "the stream still holds its session";
}

TEST_F(StreamTest, ReleasesItsPlaceWhenThePortIsDestroyed) {
  Session session = open();
  session.port.reset();
  system.run();
  EXPECT_EQ(log().released.size(), 1U);
}

TEST_F(StreamTest, ReleasesAPlaceItNoLongerNeedsOnArrival) {
  Session session;
  session.port = bridge->open_stream(native_session(""), session.sink);
  session.port->on_closed();
  system.run();
  EXPECT_EQ(log().released.size(), static_cast<size_t>(log().admitted));
}

}  // namespace
}  // namespace tutti::test
