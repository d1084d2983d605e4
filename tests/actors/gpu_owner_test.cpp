#include "actors/gpu_owner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <caf/scoped_actor.hpp>
#include <stdexcept>

#include "actors/stream_context.hpp"
#include "tests/actors/test_system.hpp"
#include "tests/engine/engine_fixture.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

using Heard = std::vector<Update>;

constexpr int the_tag = 7;

/// A stream actor that only listens.
StreamActor::behavior_type listener(std::shared_ptr<Heard> heard) {
  return {
      [](audio_atom, const AudioBytes&) {},
      [](text_atom, const TextMessage&) {},
      [](closed_atom) {},
      [](fault_atom, const Error&) {},
      [heard](update_atom, const StreamUpdates& message) {
        EXPECT_EQ(message.tag, the_tag);
        const auto& updates = message.updates->items;
        heard->insert(heard->end(), updates.begin(), updates.end());
      },
      [](lost_atom, const caf::actor_addr&) {},
      [](idle_atom) {},
      [](drain_atom) {},
      [](stop_atom) {},
  };
}

class GpuOwnerTest : public testing::Test {
 protected:
  void start(std::function<std::unique_ptr<Engine>()> make_engine) {
    owner = system->spawn(
        gpu_owner,
        OwnerSetup{.device = "test", .make_engine = std::move(make_engine), .core = {}, .metrics = metrics});
    started = ask<Started>(start_atom_v);
  }

  template <class Answer, class... Args>
  Answer ask(Args&&... args) {
    Answer answer = fail("no_answer", "");
    auto request = client->request(owner, caf::infinite, std::forward<Args>(args)...);
    system.run();
    request.receive([&](const Answer& given) { answer = given; }, [](const caf::error&) {});
    return answer;
  }

  StreamContext admit(const StreamOptions& options = {}) {
    streams.push_back(system->spawn(listener, heard));
    StreamOptions tagged = options;
    tagged.tag = the_tag;
    const auto admission = ask<Admission>(admit_atom_v, tagged, streams.back());
    return std::move(*admission.value());
  }

  void TearDown() override {
    caf::anon_send_exit(owner, caf::exit_reason::user_shutdown);
    for (const StreamActor& stream : streams) caf::anon_send_exit(stream, caf::exit_reason::user_shutdown);
    system.run();
  }

  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
  std::shared_ptr<Heard> heard = std::make_shared<Heard>();
  TestSystem system;
  caf::scoped_actor client{*system};
  GpuOwner owner;
  std::vector<StreamActor> streams;
  Started started;
};

TEST_F(GpuOwnerTest, SaysWhatItRecognizesWith) {
  start([] { return make_engine(); });
  ASSERT_TRUE(started);
  EXPECT_EQ(started->model, "tutti-en-mini");
  EXPECT_EQ(started->sample_rate, 16000);
  EXPECT_EQ(started->chunk_ms, 640);
  EXPECT_EQ(started->window_samples, 10960);
  EXPECT_EQ(started->max_streams, EngineConfig{}.max_streams);
}

TEST_F(GpuOwnerTest, SaysWhyItCannotStart) {
  start([]() -> std::unique_ptr<Engine> { throw std::runtime_error("the device is on fire"); });
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().message, "the device is on fire");
}

TEST_F(GpuOwnerTest, RunsWhatIsReadyAsOneTick) {
  start([] { return make_engine(); });
  const std::vector<float> audio = clip("libri-02.flac");
  const std::vector<float> chunk(audio.begin(), audio.begin() + 11000);  // a window is 10960 samples
  std::vector<StreamContext> leases;
  for (int i = 0; i < 3; ++i) leases.push_back(admit());
  for (const StreamContext& lease : leases) lease.feed({make_buffer(chunk), Clock::now()});
  system.run();
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_ticks_total 1\n"));
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_batch_size_sum 3\n"));
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_mailbox_high_water_messages{actor=\"owner\"} 2\n"));
}

TEST_F(GpuOwnerTest, TellsEachStreamItsOwnUpdates) {
  start([] { return make_engine(); });
  const StreamContext lease = admit();
  lease.feed({make_buffer(clip("libri-02.flac")), Clock::now()});
  lease.finish(Clock::now());
  system.run();
  ASSERT_FALSE(heard->empty());
  EXPECT_EQ(heard->back().kind, Update::Kind::done);
  const Update& final = heard->at(heard->size() - 2);
  EXPECT_EQ(final.text, expected_text("libri-02.flac"));
  EXPECT_EQ(final.words.size(), final.word_count);
}

TEST_F(GpuOwnerTest, ComesBackToAnUploadAfterEachRestBesideALiveStream) {
  start([] { return make_engine(); });
  const StreamContext live = admit();
  const StreamContext upload = admit({.stream_class = StreamClass::background});
  upload.feed({make_buffer(clip("libri-02.flac")), Clock::now()});
  upload.finish(Clock::now());
  const auto is_done = [this] { return !heard->empty() && heard->back().kind == Update::Kind::done; };
  for (int i = 0; i < 1'000'000 && !is_done(); ++i) system.advance(std::chrono::seconds(1));
  ASSERT_TRUE(is_done());
  EXPECT_EQ(heard->at(heard->size() - 2).text, expected_text("libri-02.flac"));
}

TEST_F(GpuOwnerTest, IgnoresAndCountsWhatAStaleLeaseSends) {
  EngineConfig config = greedy_config();
  config.max_streams = 1;
  start([config] { return make_engine(config); });
  StreamKey stale;
  {
    const StreamContext old = admit();
    stale = old.key();
  }
  system.run();
  const StreamContext lease = admit();
  EXPECT_EQ(lease.key().slot, stale.slot);
  EXPECT_NE(lease.key().generation, stale.generation);

  const std::vector<float> audio = clip("libri-02.flac");
  caf::anon_send(owner, feed_atom_v, stale, AudioSamples{make_buffer(audio), Clock::now()});
  caf::anon_send(owner, finish_atom_v, SegmentCommand{stale, Clock::now()});
  caf::anon_send(owner, release_atom_v, stale);
  lease.feed({make_buffer(audio), Clock::now()});
  lease.finish(Clock::now());
  system.run();
  EXPECT_EQ(heard->back().audio_samples, static_cast<int64_t>(audio.size()));
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_stale_calls_total 2\n"));
}

TEST_F(GpuOwnerTest, EndsAStreamThatIsFedMoreThanItsBuffer) {
  start([] { return make_engine(); });
  const StreamContext lease = admit();
  lease.feed({make_buffer(std::vector<float>(21 * 16000)), Clock::now()});
  system.run();
  ASSERT_EQ(heard->size(), 1U);
  EXPECT_EQ(heard->back().kind, Update::Kind::error);
}

}  // namespace
}  // namespace tutti::test
