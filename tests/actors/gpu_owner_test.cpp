#include "actors/gpu_owner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <caf/scoped_actor.hpp>
#include <stdexcept>

#include "actors/stream_context.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "tests/actors/test_system.hpp"
#include "tests/engine/engine_fixture.hpp"
#include "tests/engine/held_up_outbox.hpp"

namespace tutti::test {
namespace {

using testing::HasSubstr;

using Heard = std::vector<Update>;
using Kept = std::vector<std::shared_ptr<const StreamSnapshot>>;

constexpr int the_tag = 7;

/// A stream actor that only listens.
StreamActor::behavior_type listener(std::shared_ptr<Heard> heard, std::shared_ptr<Kept> kept) {
  return {
      [](audio_atom, const AudioBytes&) {},
      [](text_atom, const TextMessage&) {},
      [](closed_atom) {},
      [](fault_atom, const Error&) {},
      [heard, kept](update_atom, const StreamUpdates& message) {
        EXPECT_EQ(message.tag, the_tag);
        const auto& updates = message.updates->items;
        heard->insert(heard->end(), updates.begin(), updates.end());
        if (message.snapshot) kept->push_back(message.snapshot);
      },
      [](lost_atom, const caf::actor_addr&) {},
      [](idle_atom) {},
      [](drain_atom) {},
      [](stop_atom) {},
  };
}

class GpuOwnerTest : public testing::Test {
 protected:
  void start(std::function<std::unique_ptr<Engine>()> make_engine, std::chrono::milliseconds snapshots = {}) {
    owner = system->spawn(gpu_owner, OwnerSetup{.device = "test",
                                                .make_engine = std::move(make_engine),
                                                .core = {},
                                                .snapshots = snapshots,
                                                .metrics = metrics,
                                                .counts_device = true});
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
    streams.push_back(system->spawn(listener, heard, kept));
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
  std::shared_ptr<Kept> kept = std::make_shared<Kept>();
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

/// Owners whose snapshots take their time to leave the device.
class SnapshotTraffic : public GpuOwnerTest {
 protected:
  void SetUp() override {
    start(
        [traffic = traffic] {
          return std::make_unique<Engine>(
              bundled_model(), std::make_unique<HeldUpOps>(make_cpu_ops(), traffic), greedy_config());
        },
        std::chrono::milliseconds(1));  // after each chunk
    ASSERT_TRUE(started);
  }

  void speak(const StreamContext& lease) {
    const std::vector<float> audio = clip("libri-02.flac");
    lease.feed({make_buffer(std::vector(audio.begin(), audio.begin() + 11000)), Clock::now()});
    system.run();
  }

  /// Whatever waits for the time to pass.
  void rest() {
    for (int i = 0; i < 5; ++i) system.advance(std::chrono::seconds(1));
  }

  std::shared_ptr<Traffic> traffic = std::make_shared<Traffic>();
};

TEST_F(SnapshotTraffic, TheyComeByThemselvesWhereNoTickFollows) {
  traffic->is_held_up = true;
  const StreamContext lease = admit();
  speak(lease);
  rest();
  EXPECT_TRUE(kept->empty());
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_device_snapshots{device=\"test\"} 1\n"));
  traffic->is_held_up = false;
  rest();
  ASSERT_EQ(kept->size(), 1U);
  EXPECT_GT(kept->front()->sample, 0);
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_device_snapshots{device=\"test\"} 0\n"));
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_snapshots_total 1\n"));
}

TEST_F(SnapshotTraffic, StreamsTakeTurnsWhereThereIsNoRoomForAll) {
  traffic->is_held_up = true;
  std::vector<StreamContext> leases;
  for (int i = 0; i < 5; ++i) {
    leases.push_back(admit());
    speak(leases.back());
  }
  EXPECT_THAT(metrics->text(), HasSubstr("tutti_device_snapshots{device=\"test\"} 2\n"));
  EXPECT_THAT(metrics->text(),
              testing::Not(HasSubstr("tutti_device_postponed_snapshots_total{device=\"test\"} 0\n")));
  traffic->is_held_up = false;
  rest();
  EXPECT_EQ(kept->size(), 5U);
}

TEST_F(SnapshotTraffic, NobodyGetsThatOfAStreamThatHasEnded) {
  traffic->is_held_up = true;
  {
    const StreamContext gone = admit();
    speak(gone);
    const StreamContext another = admit();
    speak(another);
    const StreamContext waiting = admit();
    speak(waiting);
  }
  system.run();
  const StreamContext next = admit();
  traffic->is_held_up = false;
  rest();
  EXPECT_TRUE(kept->empty());
  speak(next);
  rest();
  EXPECT_EQ(kept->size(), 1U);
}

}  // namespace
}  // namespace tutti::test
