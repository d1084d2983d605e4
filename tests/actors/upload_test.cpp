#include <gmock/gmock.h>

#include <fstream>

#include "actors/upload_actor.hpp"
#include "actors/upload_bridge.hpp"
#include "tests/actors/recording_reply.hpp"
#include "tests/actors/stream_fixture.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr int rate = 16000;

void append_le(std::string& out, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

/// A WAV file of silence: mono, 16 bits, at 16 kHz.
std::string wav(size_t samples) {
  std::string out = "RIFF";
  append_le(out, static_cast<uint32_t>(36 + 2 * samples), 4);
  out += "WAVEfmt ";
  append_le(out, 16, 4);
  append_le(out, 1, 2);
  append_le(out, 1, 2);
  append_le(out, rate, 4);
  append_le(out, 2 * rate, 4);
  append_le(out, 2, 2);
  append_le(out, 16, 2);
  out += "data";
  append_le(out, static_cast<uint32_t>(2 * samples), 4);
  return out + std::string(2 * samples, '\0');
}

Update final_update(std::string text, int64_t start, int64_t end) {
  Update update;
  update.kind = Update::Kind::final;
  update.text = std::move(text);
  update.start_sample = start;
  update.end_sample = end;
  return update;
}

class UploadTest : public ActorTest {
 protected:
  struct Upload {
    std::shared_ptr<RecordingReply> reply = std::make_shared<RecordingReply>();
    std::unique_ptr<UploadPlace> place;
  };

  void start_uploads(UploadLimits limits = {}, int max_streams = 8) {
    start({max_streams});
    uploads = std::make_unique<UploadBridge>(
        [this](const UploadSetup& setup, const GatewayActor& let_in) {
          return system->spawn(upload_actor, setup, let_in);
        },
        gateway, metrics, limits, credit_ms);
  }
  void TearDown() override {
    uploads.reset();
    ActorTest::TearDown();
  }

  Upload upload(std::string body, std::string query = "", std::string type = "audio/wav") {
    Upload upload;
    upload.place = uploads->take_place();
    upload.place->start({std::move(type), std::move(query), std::move(body)}, upload.reply);
    system.run();
    return upload;
  }
  /// The engine works off everything, as often as more of it comes.
  void consume_all() {
    while (logs[0]->unconsumed > 0) {
      consume(*logs[0], stream(), logs[0]->unconsumed);
      system.run();
    }
  }
  void update(Update update) {
    send_update(stream(), std::move(update));
    system.run();
  }
  void done(int64_t samples) {
    Update update;
    update.kind = Update::Kind::done;
    update.audio_samples = samples;
    send_update(stream(), update);
    system.run();
  }
  [[nodiscard]] std::string outcome(const std::string& name) const {
    return "tutti_uploads_total{outcome=\"" + name + "\"} 1\n";
  }

  std::unique_ptr<UploadBridge> uploads;
};

TEST_F(UploadTest, FeedsAFileWithinTheCreditAndAnswersWithItsFinals) {
  start_uploads();
  const Upload one = upload(wav(10 * rate));
  EXPECT_EQ(logs[0]->samples.size(), static_cast<size_t>(credit_ms) * rate / 1000);
  EXPECT_EQ(logs[0]->finished, 0);
  consume_all();
  EXPECT_EQ(logs[0]->samples.size(), 10U * rate);
  EXPECT_LE(logs[0]->most_unconsumed, int64_t{credit_ms} * rate / 1000 + rate / 10);
  EXPECT_EQ(logs[0]->finished, 1);
  update(final_update("HELLO", 1600, 3200));
  update(final_update("", 0, 0));
  update(final_update("WORLD", 4800, 6400));
  EXPECT_EQ(one.reply->begins, 0);
  done(10 * rate);
  EXPECT_EQ(one.reply->head.status, 200U);
  EXPECT_EQ(one.reply->head.content_type, "application/json");
  EXPECT_EQ(one.reply->head.content_length, one.reply->body.size());
  EXPECT_EQ(one.reply->body, R"({"text":"HELLO WORLD"})");
  EXPECT_EQ(one.reply->ends, 1);
  EXPECT_THAT(metrics->text(), HasSubstr(outcome("done")));
}

TEST_F(UploadTest, IsABackgroundStreamWithEndpoints) {
  start_uploads();
  const Upload one = upload(wav(rate));
  EXPECT_EQ(logs[0]->options.back().stream_class, StreamClass::background);
  EXPECT_FALSE(logs[0]->options.back().interim);
  EXPECT_FALSE(logs[0]->options.back().words);
  EXPECT_EQ(logs[0]->options.back().endpoint.silence_after_speech_ms,
            EndpointRules{}.silence_after_speech_ms);
}

TEST_F(UploadTest, TellsSegmentsAndWordsInSeconds) {
  start_uploads();
  const Upload one = upload(wav(rate), "response_format=verbose_json&timestamp_granularities[]=word");
  EXPECT_TRUE(logs[0]->options.back().words);
  Update final = final_update("HI", 1600, 3200);
  final.words = {{.text = "HI", .first_frame = 2, .last_frame = 3, .confidence = 0.5F}};
  final.word_count = 1;
  final.segment_sample = 640;
  update(final);
  done(rate);
  EXPECT_EQ(one.reply->body, R"({"task":"transcribe","language":"unknown","duration":1.00,"text":"HI",)"
                             R"("segments":[{"id":0,"start":0.10,"end":0.20,"text":"HI"}],)"
                             R"("words":[{"word":"HI","start":0.12,"end":0.20}]})");
}

TEST_F(UploadTest, StreamsEachFinalAsItComes) {
  start_uploads();
  const Upload one = upload(wav(rate), "stream=true");
  update(final_update("HELLO", 0, 1));
  EXPECT_EQ(one.reply->head.content_type, "text/event-stream");
  EXPECT_FALSE(one.reply->head.content_length.has_value());
  EXPECT_THAT(one.reply->body, HasSubstr(R"("delta":"HELLO")"));
  update(final_update("WORLD", 2, 3));
  done(rate);
  EXPECT_THAT(one.reply->body, HasSubstr(R"("delta":" WORLD")"));
  EXPECT_THAT(one.reply->body, HasSubstr(R"({"type":"transcript.text.done","text":"HELLO WORLD"})"));
  EXPECT_EQ(one.reply->begins, 1);
  EXPECT_EQ(one.reply->ends, 1);
}

TEST_F(UploadTest, HoldsTheAudioBackFromAClientThatDoesNotRead) {
  start_uploads();
  const Upload one = upload(wav(10 * rate), "stream=true");
  const size_t fed = logs[0]->samples.size();
  update(final_update(std::string(100'000, 'A'), 0, 1));
  consume(*logs[0], stream(), logs[0]->unconsumed);
  system.run();
  EXPECT_EQ(logs[0]->samples.size(), fed);
  one.place->on_written(one.reply->body.size());
  system.run();
  EXPECT_GT(logs[0]->samples.size(), fed);
}

TEST_F(UploadTest, SaysAnErrorInTheMiddleOfAStreamedReplyAsAnEvent) {
  start_uploads();
  const Upload one = upload(wav(rate), "stream=true");
  update(final_update("HELLO", 0, 1));
  Update failure;
  failure.kind = Update::Kind::error;
  failure.text = "not a number";
  update(failure);
  EXPECT_EQ(one.reply->head.status, 200U);
  EXPECT_THAT(one.reply->body, HasSubstr("data: {\"error\":{\"message\":\"not a number\""));
  EXPECT_EQ(one.reply->ends, 1);
}

TEST_F(UploadTest, AnswersAFailureOfItsStream) {
  start_uploads();
  const Upload one = upload(wav(rate));
  Update failure;
  failure.kind = Update::Kind::error;
  failure.text = "not a number";
  update(failure);
  EXPECT_EQ(one.reply->head.status, 500U);
  EXPECT_THAT(one.reply->body, HasSubstr(R"("code":"recognition_failed")"));
}

TEST_F(UploadTest, RefusesWhatIsNoAudio) {
  start_uploads();
  const auto expect = [this](std::string body, const std::string& code) {
    const Upload one = upload(std::move(body));
    EXPECT_EQ(one.reply->head.status, 400U) << code;
    EXPECT_EQ(one.reply->head.content_length, one.reply->body.size());
    EXPECT_THAT(one.reply->body, HasSubstr("\"param\":\"file\",\"code\":\"" + code + "\""));
    EXPECT_EQ(one.reply->ends, 1);
  };
  expect("", "empty_file");
  expect("x", "bad_audio_file");
  expect("this is a text, whatever it is called", "bad_audio_file");
  expect(wav(0), "empty_audio");
  expect(wav(10).substr(0, 20), "bad_audio_file");
  const Upload other = upload(wav(10), "", "text/plain");
  EXPECT_EQ(other.reply->head.status, 415U);
}

TEST_F(UploadTest, TakesASingleSample) {
  start_uploads();
  const Upload one = upload(wav(1));
  EXPECT_EQ(logs[0]->samples.size(), 1U);
  done(1);
  EXPECT_EQ(one.reply->body, R"({"text":""})");
}

TEST_F(UploadTest, RefusesAudioLongerThanItsCap) {
  start_uploads({.max_uploads = 1, .max_seconds = 2});
  {
    const Upload longer = upload(wav(2 * rate + 1));
    EXPECT_EQ(longer.reply->head.status, 413U);
    EXPECT_THAT(longer.reply->body, HasSubstr(R"("code":"audio_too_long")"));
    EXPECT_THAT(longer.reply->body, HasSubstr("2 s of audio that this server takes"));
    EXPECT_EQ(logs[0]->admitted, 0);
  }
  system.run();
  const Upload as_long = upload(wav(2 * rate));
  EXPECT_EQ(logs[0]->samples.size(), 2U * rate);
}

TEST_F(UploadTest, HasSoManyPlacesAndGivesThemBack) {
  start_uploads({.max_uploads = 2, .max_seconds = 60});
  auto one = upload(wav(rate));
  auto waiting = uploads->take_place();
  EXPECT_EQ(uploads->take_place(), nullptr);
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_open_uploads 2\n"));
  waiting.reset();
  EXPECT_NE(uploads->take_place(), nullptr);
  one.place.reset();
  system.run();
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_open_uploads 0\n"));
  EXPECT_THAT(metrics->text(), HasSubstr(outcome("cancelled")));
  EXPECT_EQ(logs[0]->released.size(), 1U);
  EXPECT_EQ(one.reply->ends, 0);
}

TEST_F(UploadTest, SaysThatNoStreamIsFree) {
  start_uploads({}, 1);
  const Upload one = upload(wav(rate));
  const Upload two = upload(wav(rate));
  EXPECT_EQ(two.reply->head.status, 503U);
  EXPECT_THAT(two.reply->body, HasSubstr(R"("type":"server_error","param":null,"code":"full")"));
  EXPECT_EQ(two.reply->head.headers.at(0).first, "Retry-After");
}

TEST_F(UploadTest, MayComeToItsEndWhileTheServerDrains) {
  start_uploads();
  const Upload one = upload(wav(rate));
  caf::anon_send(gateway, drain_atom_v);
  system.run();
  EXPECT_EQ(one.reply->ends, 0);
  const Upload late = upload(wav(rate));
  EXPECT_EQ(late.reply->head.status, 503U);
  EXPECT_THAT(late.reply->body, HasSubstr("draining"));
  done(rate);
  EXPECT_EQ(one.reply->head.status, 200U);
}

TEST_F(UploadTest, EndsWithTheGracePeriod) {
  start_uploads();
  const Upload one = upload(wav(rate));
  caf::anon_send(gateway, drain_atom_v);
  system.run();
  system.advance(std::chrono::seconds(11));
  system.advance(last_finals);
  EXPECT_EQ(one.reply->head.status, 503U);
  EXPECT_THAT(one.reply->body, HasSubstr(R"("code":"stopped")"));
}

TEST_F(UploadTest, SaysThatItsOwnerIsLost) {
  start_uploads();
  const Upload one = upload(wav(rate));
  caf::anon_send_exit(owners[0], caf::exit_reason::kill);
  system.run();
  EXPECT_EQ(one.reply->head.status, 503U);
  EXPECT_THAT(one.reply->body, HasSubstr(R"("code":"owner_lost")"));
}

TEST_F(UploadTest, GoesOnWithAnotherOwnerWhenItsOwnDies) {
  replaces = true;
  start_uploads();
  const Upload request = upload(wav(16000), "", "audio/wav");
  ASSERT_EQ(logs[0]->samples.size(), 16000U);
  kill(0);
  system.advance(std::chrono::seconds(1));
  ASSERT_EQ(logs.size(), 2U);
  EXPECT_EQ(logs[1]->samples.size(), 16000U);
  EXPECT_EQ(request.reply->begins, 0);
  Update end;
  end.kind = Update::Kind::done;
  end.audio_samples = 16000;
  const std::vector<Update> updates{final_update("HELLO", 0, 16000), end};
  caf::anon_send(logs[1]->streams[0], update_atom_v,
                 StreamUpdates{make_buffer(updates), logs[1]->options[0].tag});
  system.run();
  EXPECT_EQ(request.reply->head.status, 200U);
  EXPECT_THAT(request.reply->body, HasSubstr("HELLO"));
}

}  // namespace
}  // namespace tutti::test
