#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "counting_ops.hpp"
#include "engine_fixture.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "tests/config/patience.hpp"

namespace tutti {
namespace {

// Feeds a clip over and over, one finalize after each.
std::vector<Said::Event> repeat_with_finalizes(Engine& engine, std::span<const float> samples, int times) {
  const StreamKey key = engine.admit({.interim = false}).value();
  Said said;
  for (int i = 0; i < times; ++i) {
    must(engine.feed(key, samples));
    must(engine.finalize(key));
    run_until_idle(engine, [&](const Update& u) { said.add(u); });
  }
  engine.release(key);
  return said.finals();
}

TEST(LongStreams, AHistoryTooLongForAPositionTableIsRefusedByName) {
  EngineConfig config;
  config.num_left_chunks = -1;
  config.block_size_frames = 4096;
  config.max_blocks_per_seq = 1 << 20;  // 2^32 frames
  EXPECT_THROW((void)required_positions(config), SetupError);
  config.max_blocks_per_seq = 256;
  EXPECT_EQ(required_positions(config), 256 * 4096 + config.chunk_size);
}

TEST(LongStreams, SegmentsStayTheSameAndOnAnExactClockForHundredsOfThem) {
  const auto engine = make_engine();
  const std::vector<float> samples = clip("16k/digit-38.flac");
  const int times = unless_in_a_hurry(300, 30);
  const auto finals = repeat_with_finalizes(*engine, samples, times);
  ASSERT_EQ(finals.size(), static_cast<size_t>(times));
  for (size_t i = 0; i < finals.size(); ++i) {
    const auto origin = static_cast<int64_t>(i * samples.size());
    EXPECT_EQ(finals[i].text, finals[0].text);
    EXPECT_EQ(finals[i].start_sample, finals[0].start_sample + origin);
    EXPECT_EQ(finals[i].end_sample, finals[0].end_sample + origin);
  }
}

TEST(LongStreams, AChunkCostsTheSameHoweverLongTheStreamIs) {
  EngineConfig config = greedy_config();
  config.max_streams = 1;
  auto owned = std::make_unique<CountingOps>(make_cpu_ops());
  CountingOps& ops = *owned;
  Engine engine(bundled_model(), std::move(owned), config);
  const StreamKey key = engine.admit({.interim = false}).value();
  const std::vector<float> samples = clip("libri-06.flac");
  std::vector<int64_t> costs;
  const int rounds = unless_in_a_hurry(12, 5);
  for (int round = 0; round < rounds; ++round) {
    must(engine.feed(key, samples));
    while (engine.has_work()) {
      (void)ops.take_count();
      (void)engine.tick();
      costs.push_back(ops.take_count());
    }
  }
  // A chunk each, once the first ones have filled the history.
  ASSERT_GT(costs.size(), 30U);
  const auto full = std::span(costs).subspan(20);
  EXPECT_GT(full.front(), 0);
  EXPECT_THAT(full, testing::Each(full.front()));
}

// Without a pause the position origin restarts at 1.5 times max_position_frames: the stream goes on past any
// table.
TEST(LongStreams, AStreamWithoutASingleEndpointGoesOnPastThePositionTable) {
  EngineConfig config = greedy_config();
  config.max_position_frames = 40;
  const auto engine = make_engine(config);
  const StreamKey key = engine->admit({}).value();
  const std::vector<float> samples = clip("libri-02.flac");
  Said said;
  int64_t fed = 0;
  // 143 encoder frames a round: more than 8000 in all, past the 5000 rows of the reference's table.
  const int rounds = unless_in_a_hurry(60, 6);
  for (int round = 0; round < rounds; ++round) {
    must(engine->feed(key, samples));
    fed += static_cast<int64_t>(samples.size());
    run_until_idle(*engine, [&](const Update& u) { said.add(u); });
  }
  must(engine->finish(key));
  run_until_idle(*engine, [&](const Update& u) { said.add(u); });
  EXPECT_TRUE(said.done);
  EXPECT_EQ(said.audio_samples, fed);
  const auto finals = said.finals();
  EXPECT_EQ(finals.back().reason, FinalReason::eof);
  EXPECT_NEAR(static_cast<double>(finals.back().end_sample), static_cast<double>(fed), 16000);
}

TEST(LongStreams, ASegmentThatReachesTheTokenCapIsClosedAndTheStreamGoesOn) {
  EngineConfig config = greedy_config();
  config.max_segment_tokens = 64;
  const auto engine = make_engine(config);
  const Said capped = recognize_alone(*engine, clip("libri-02.flac"));
  const auto finals = capped.finals();
  ASSERT_GE(finals.size(), 2U);
  std::string joined;
  for (size_t i = 0; i < finals.size(); ++i) {
    EXPECT_EQ(finals[i].reason, i + 1 < finals.size() ? FinalReason::length : FinalReason::eof);
    EXPECT_EQ(finals[i].segment, static_cast<int32_t>(i));
    joined += finals[i].text;
  }
  // The cut may fall inside a word: compared letter by letter.
  std::string expected = expected_text("libri-02.flac");
  std::erase(joined, ' ');
  std::erase(expected, ' ');
  EXPECT_EQ(joined, expected);
}

TEST(LongStreams, UnlimitedHistoryThatFillsItsShareEndsTheSegmentWithLength) {
  EngineConfig config = greedy_config();
  config.num_left_chunks = -1;
  config.max_streams = 2;
  config.max_blocks_per_seq = 64;
  config.max_num_blocks = 12;  // six chunks a stream
  const auto engine = make_engine(config);
  const Said said = recognize_alone(*engine, clip("libri-02.flac"));
  const auto finals = said.finals();
  ASSERT_EQ(finals.size(), 2U);
  EXPECT_EQ(finals[0].reason, FinalReason::length);
  EXPECT_EQ(finals[1].reason, FinalReason::eof);
  EXPECT_TRUE(said.done);
}

// Both shares are full from the first round on, and nobody else's blocks are there to take.
TEST(LongStreams, UnlimitedHistoryThatRecyclesGoesOnPastItsShareInOneSegment) {
  EngineConfig config = greedy_config();
  config.num_left_chunks = -1;
  config.max_streams = 2;
  config.max_blocks_per_seq = 64;
  config.max_num_blocks = 12;
  config.at_capacity = "recycle";
  config.max_segment_tokens = 4096;  // it is not its tokens that end it
  const auto engine = make_engine(config);
  const std::array keys{engine->admit({}).value(), engine->admit({}).value()};
  const std::vector<float> samples = clip("libri-02.flac");
  std::array<Said, 2> said;
  const auto listen = [&](const Update& u) { said[u.key == keys[0] ? 0 : 1].add(u); };
  constexpr int rounds = 15;
  for (int round = 0; round < rounds; ++round) {
    for (const StreamKey key : keys) must(engine->feed(key, samples));
    run_until_idle(*engine, listen);
  }
  for (const StreamKey key : keys) must(engine->finish(key));
  run_until_idle(*engine, listen);
  for (const Said& s : said) {
    const auto finals = s.finals();
    ASSERT_EQ(finals.size(), 1U);
    EXPECT_EQ(finals[0].reason, FinalReason::eof);
    EXPECT_GT(finals[0].end_sample, (rounds - 1) * static_cast<int64_t>(samples.size()));
    EXPECT_TRUE(s.done);
  }
  EXPECT_EQ(said[0], said[1]);
}

TEST(LongStreams, UnlimitedHistoryIsTheSameWhateverHappensAtACapacityThatIsNotReached) {
  EngineConfig config = greedy_config();
  config.num_left_chunks = -1;
  config.max_streams = 1;
  config.max_blocks_per_seq = 64;
  const Said finalizing = recognize_alone(*make_engine(config), clip("libri-02.flac"));
  config.at_capacity = "recycle";
  EXPECT_EQ(recognize_alone(*make_engine(config), clip("libri-02.flac")), finalizing);
}

}  // namespace
}  // namespace tutti
