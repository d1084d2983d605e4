#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine_fixture.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "poisoning_ops.hpp"

namespace tutti {
namespace {

using testing::ElementsAre;

TEST(Isolation, AStreamThatComputesSomethingNotFiniteEndsAloneAndItsMemoryHarmsNobodyAfter) {
  EngineConfig config = greedy_config();
  config.decoder = "greedy";
  config.max_streams = 3;
  const auto engine =
      std::make_unique<Engine>(bundled_model(), std::make_unique<PoisoningOps>(make_cpu_ops()), config);
  const std::vector<float> good = clip("libri-06.flac");
  std::vector<float> bad = good;
  // The third chunk's first new frame: two windows of 67 and 64 frames went before.
  bad[(67 + 64) * 160] = PoisoningOps::trigger;
  const auto alone = recognize_alone(*engine, good).finals();

  const StreamKey healthy = engine->admit({}).value();
  const StreamKey sick = engine->admit({}).value();
  must(engine->feed(healthy, good));
  must(engine->feed(sick, bad));
  must(engine->finish(healthy));
  must(engine->finish(sick));
  Said healthy_said;
  Said sick_said;
  run_until_idle(*engine, [&](const Update& u) { (u.key == healthy ? healthy_said : sick_said).add(u); });
  EXPECT_EQ(healthy_said.finals(), alone);
  ASSERT_FALSE(sick_said.events.empty());
  EXPECT_EQ(sick_said.events.back().kind, Update::Kind::error);
  EXPECT_THAT(sick_said.events.back().text, testing::HasSubstr("not finite"));
  EXPECT_FALSE(sick_said.done);
  EXPECT_EQ(engine->stats().failed_streams, 1);
  EXPECT_EQ(engine->free_streams(), 3);

  // Every slot and block once more, the poisoned ones among them.
  for (int round = 0; round < 2; ++round) {
    std::vector<StreamKey> keys;
    for (int i = 0; i < 3; ++i) {
      keys.push_back(engine->admit({}).value());
      must(engine->feed(keys.back(), good));
      must(engine->finish(keys.back()));
    }
    std::vector<Said> said(3);
    run_until_idle(*engine, [&](const Update& u) {
      for (size_t i = 0; i < 3; ++i) {
        if (keys[i] == u.key) said[i].add(u);
      }
    });
    for (const Said& s : said) EXPECT_EQ(s.finals(), alone);
  }
}

TEST(Admission, ReservesAWholeHistorySoThatAdmittedStreamsNeverRunOutOfBlocks) {
  EngineConfig config = greedy_config();
  config.max_streams = 4;
  const auto engine = make_engine(config);
  std::vector<StreamKey> keys;
  for (int i = 0; i < 4; ++i) keys.push_back(engine->admit({}).value());
  const auto refused = engine->admit({});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, "full");
  EXPECT_THAT(refused.error().message, testing::HasSubstr("4"));

  const std::vector<float> samples = clip("libri-02.flac");
  std::vector<int> finals(4);
  for (const StreamKey key : keys) {
    must(engine->feed(key, samples));
    must(engine->finish(key));
  }
  run_until_idle(*engine, [&](const Update& u) {
    if (u.kind != Update::Kind::final) return;
    EXPECT_EQ(u.text, expected_text("libri-02.flac"));
    ++finals[static_cast<size_t>(u.key.slot)];
  });
  EXPECT_THAT(finals, testing::Each(1));
  EXPECT_EQ(engine->free_streams(), 4);
  EXPECT_TRUE(engine->admit({}).has_value());
}

TEST(Admission, AStaleKeyIsIgnoredAndCounted) {
  const auto engine = make_engine();
  const StreamKey old = engine->admit({}).value();
  engine->release(old);
  const StreamKey current = engine->admit({}).value();
  EXPECT_EQ(current.slot, old.slot);
  const int64_t before = engine->stats().stale_calls;
  EXPECT_TRUE(engine->feed(old, clip("16k/digit-34.flac")).has_value());
  EXPECT_TRUE(engine->finish(old).has_value());
  engine->release(old);
  EXPECT_EQ(engine->stats().stale_calls, before + 3);
  EXPECT_FALSE(engine->has_work());
  EXPECT_EQ(engine->open_streams(), 1);
}

TEST(Admission, ABufferThatIsFullTakesNothingAndSaysSo) {
  EngineConfig config = greedy_config();
  config.max_buffered_ms = 1000;
  const auto engine = make_engine(config);
  const StreamKey key = engine->admit({}).value();
  const std::vector<float> samples(16000);
  must(engine->feed(key, samples));
  EXPECT_EQ(engine->feed(key, std::span(samples).first(1)).error().code, "buffer_full");
}

TEST(Admission, AModelLoadedWithTooFewPositionsIsRefused) {
  EngineConfig config = greedy_config();
  config.max_position_frames = 100000;
  EXPECT_THROW(make_engine(config), std::invalid_argument);
}

}  // namespace
}  // namespace tutti
