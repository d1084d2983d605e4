#include "config/cache_config.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void expect_refusal(const CacheConfig& config, const ::testing::Matcher<const std::string&>& message) {
  EXPECT_THAT([&] { (void)config.validated(); }, ThrowsMessage<std::invalid_argument>(message));
}

TEST(CacheConfig, FillsTheDerivedFields) {
  const auto config = CacheConfig{.max_streams = 10}.validated();
  EXPECT_EQ(config.block_size_frames, 16);
  EXPECT_EQ(config.window_frames(), 64);
  EXPECT_EQ(config.max_logical_blocks(), 5);
  EXPECT_EQ(config.blocks_per_dispatch(), 1);
  EXPECT_EQ(config.blocks_per_stream(), 6);
  EXPECT_EQ(config.max_num_blocks, 60);
  EXPECT_EQ(config.max_stream_frames(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(config.kv_last_dim(), 128);
  EXPECT_EQ(config.cnn_cache_frames(), 14);
}

TEST(CacheConfig, ValidatingTwiceChangesNothing) {
  const auto once = CacheConfig{.num_left_chunks = -1, .block_size_frames = 5}.validated();
  const auto twice = once.validated();
  EXPECT_EQ(twice.block_size_frames, once.block_size_frames);
  EXPECT_EQ(twice.max_num_blocks, once.max_num_blocks);
  EXPECT_EQ(twice.blocks_per_stream(), once.blocks_per_stream());
}

TEST(CacheConfig, BlocksMayBeSmallerOrLargerThanAChunk) {
  const auto small = CacheConfig{.chunk_size = 16, .num_left_chunks = 4, .block_size_frames = 5}.validated();
  EXPECT_EQ(small.max_logical_blocks(), 14);  // ceil((64 + 4) / 5)
  EXPECT_EQ(small.blocks_per_dispatch(), 4);
  const auto large = CacheConfig{.chunk_size = 16, .num_left_chunks = 4, .block_size_frames = 50}.validated();
  EXPECT_EQ(large.max_logical_blocks(), 3);  // ceil((64 + 49) / 50)
  EXPECT_EQ(large.blocks_per_dispatch(), 1);
}

TEST(CacheConfig, NoHistoryIsLegalAndKeepsOnlyAPartlyWrittenBlock) {
  const auto config = CacheConfig{.num_left_chunks = 0}.validated();
  EXPECT_TRUE(config.evicts());
  EXPECT_EQ(config.window_frames(), 0);
  EXPECT_EQ(config.max_logical_blocks(), 1);
  EXPECT_EQ(config.blocks_per_stream(), 2);
  EXPECT_EQ((CacheConfig{.num_left_chunks = 0, .block_size_frames = 1}.validated().max_logical_blocks()), 0);
}

TEST(CacheConfig, UnlimitedHistorySharesThePoolAndHasACapacity) {
  const auto config =
      CacheConfig{.num_left_chunks = -1, .max_num_blocks = 2048, .max_blocks_per_seq = 512, .max_streams = 32}
          .validated();
  EXPECT_FALSE(config.evicts());
  EXPECT_EQ(config.window_frames(), std::nullopt);
  EXPECT_EQ(config.max_logical_blocks(), std::nullopt);
  EXPECT_EQ(config.blocks_per_stream(), 64);
  EXPECT_EQ(config.max_stream_frames(), 1024);

  const auto derived =
      CacheConfig{.num_left_chunks = -1, .max_blocks_per_seq = 100, .max_streams = 3}.validated();
  EXPECT_EQ(derived.max_num_blocks, 300);
  EXPECT_EQ(derived.blocks_per_stream(), 100);
}

TEST(CacheConfig, LanesBeyondTheStreamsAreNotKept) {
  EXPECT_EQ((CacheConfig{.max_streams = 3, .max_batch_size = 8}.validated().max_batch_size), 3);
  EXPECT_EQ((CacheConfig{.max_streams = 9, .max_batch_size = 8}.validated().max_batch_size), 8);
}

TEST(CacheConfig, RefusesFieldsOutOfRangeByName) {
  const auto refuses = [](const char* field, int value, auto member) {
    CacheConfig config;
    config.*member = value;
    expect_refusal(config, HasSubstr(field + (" = " + std::to_string(value) + ": ")));
  };
  refuses("num_layers", 0, &CacheConfig::num_layers);
  refuses("n_kv_head", 0, &CacheConfig::n_kv_head);
  refuses("head_dim", -64, &CacheConfig::head_dim);
  refuses("hidden_dim", 0, &CacheConfig::hidden_dim);
  refuses("kernel_size", 0, &CacheConfig::kernel_size);
  refuses("chunk_size", 0, &CacheConfig::chunk_size);
  refuses("num_left_chunks", -2, &CacheConfig::num_left_chunks);
  refuses("num_left_chunks", 1 << 20, &CacheConfig::num_left_chunks);
  refuses("block_size_frames", -1, &CacheConfig::block_size_frames);
  refuses("max_num_blocks", -1, &CacheConfig::max_num_blocks);
  refuses("max_blocks_per_seq", 0, &CacheConfig::max_blocks_per_seq);
  refuses("max_streams", 0, &CacheConfig::max_streams);
  refuses("max_batch_size", 0, &CacheConfig::max_batch_size);
}

TEST(CacheConfig, RefusesATableNarrowerThanAStreamsReservation) {
  EXPECT_EQ(CacheConfig{.max_blocks_per_seq = 6}.validated().blocks_per_stream(), 6);
  expect_refusal({.max_blocks_per_seq = 5},
                 AllOf(HasSubstr("max_blocks_per_seq = 5"), HasSubstr("at least 6"),
                       HasSubstr("num_left_chunks"), HasSubstr("block_size_frames")));
}

TEST(CacheConfig, RefusesAPoolThatCannotHoldEveryStreamAndNamesTheLevers) {
  EXPECT_EQ(CacheConfig{.max_num_blocks = 192}.validated().max_num_blocks, 192);
  expect_refusal({.max_num_blocks = 191},
                 AllOf(HasSubstr("max_num_blocks = 191"), HasSubstr("at least 192"),
                       HasSubstr("max_streams = 32 times 6"),
                       HasSubstr("lower max_streams to 31 or num_left_chunks to 3")));
  EXPECT_NO_THROW((void)CacheConfig({.max_num_blocks = 191, .max_streams = 31}).validated());
  EXPECT_NO_THROW((void)CacheConfig({.num_left_chunks = 3, .max_num_blocks = 191}).validated());
}

TEST(CacheConfig, NamesNoLeverThatWouldNotHelp) {
  const CacheConfig one{.block_size_frames = 16, .max_num_blocks = 5, .max_streams = 1};
  EXPECT_EQ(one.ways_to_fit(1), "")
      << "not even a chunk without history fits beside its partly written block";
  EXPECT_EQ(CacheConfig({.num_left_chunks = -1, .block_size_frames = 16}).ways_to_fit(20),
            "max_streams to 20");
}

TEST(CacheConfig, TheLeversThatAreNamedAreTheLargestThatFit) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto between = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  const auto fits = [](CacheConfig config, int blocks) {
    return config.max_streams >= 1 && config.max_streams * config.min_blocks_per_stream() <= blocks;
  };
  for (int round = 0; round < 300; ++round) {
    const CacheConfig config{.chunk_size = between(1, 20),
                             .num_left_chunks = between(0, 6),
                             .block_size_frames = between(1, 30),
                             .max_streams = between(1, 10)};
    const int blocks = between(0, static_cast<int>(config.max_streams * config.min_blocks_per_stream()) - 1);
    std::string expected;
    CacheConfig fewer = config;
    while (fewer.max_streams > 0 && !fits(fewer, blocks)) --fewer.max_streams;
    if (fewer.max_streams > 0) expected = "max_streams to " + std::to_string(fewer.max_streams);
    CacheConfig shorter = config;
    while (shorter.num_left_chunks >= 0 && !fits(shorter, blocks)) --shorter.num_left_chunks;
    if (shorter.num_left_chunks >= 0) {
      expected += (expected.empty() ? "" : " or ") + std::string("num_left_chunks to ") +
                  std::to_string(shorter.num_left_chunks);
    }
    EXPECT_EQ(config.ways_to_fit(blocks), expected);
  }
}

TEST(CacheConfig, AStreamThatRecyclesIsNeverAtCapacityAndKeepsAtLeastABlock) {
  const CacheConfig config{.num_left_chunks = -1, .max_num_blocks = 64, .recycle_at_capacity = true};
  EXPECT_TRUE(config.validated().recycles());
  EXPECT_EQ(config.validated().blocks_per_stream(), 2);
  EXPECT_EQ(config.validated().max_stream_frames(), std::numeric_limits<int64_t>::max());
  expect_refusal({.num_left_chunks = -1, .max_num_blocks = 63, .recycle_at_capacity = true},
                 HasSubstr("at least 64"));
  EXPECT_FALSE(CacheConfig({.num_left_chunks = 4, .recycle_at_capacity = true}).validated().recycles())
      << "a window already drops what is old";
}

TEST(CacheConfig, APrefilledWindowNeedsAWindow) {
  EXPECT_EQ(CacheConfig({.num_left_chunks = 4, .prefill_kv_window = true}).validated().max_num_blocks,
            CacheConfig({.num_left_chunks = 4}).validated().max_num_blocks);
  for (const int left : {-1, 0}) {
    expect_refusal({.num_left_chunks = left, .prefill_kv_window = true},
                   AllOf(HasSubstr("prefill_kv_window"), HasSubstr("num_left_chunks of at least 1"),
                         HasSubstr(std::to_string(left))));
  }
}

TEST(CacheConfig, WithUnlimitedHistoryThePoolHoldsAtLeastAChunkOfEveryStream) {
  const CacheConfig enough{.num_left_chunks = -1, .max_num_blocks = 32};
  EXPECT_EQ(enough.validated().blocks_per_stream(), 1);
  expect_refusal({.num_left_chunks = -1, .max_num_blocks = 31}, HasSubstr("at least 32"));
}

TEST(CacheConfig, RefusesMoreBlocksThanAnIdCanNumber) {
  expect_refusal({.num_left_chunks = -1, .max_blocks_per_seq = 1 << 20, .max_streams = 1 << 12},
                 AllOf(HasSubstr("max_streams = 4096"), HasSubstr("at most 2047")));
}

/// Blocks of `block` frames that frames [begin, end) touch.
int64_t touched(int64_t begin, int64_t end, int block) {
  return begin == end ? 0 : (end - 1) / block - begin / block + 1;
}

TEST(CacheConfig, TheReservationCoversEveryPositionOfAnyGeometry) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const auto config = CacheConfig{.chunk_size = static_cast<int>(random() % 20) + 1,
                                    .num_left_chunks = static_cast<int>(random() % 6),
                                    .block_size_frames = static_cast<int>(random() % 30) + 1}
                            .validated();
    int64_t end = 0;
    for (int chunk = 0; chunk < 60; ++chunk) {
      const int frames = static_cast<int>(random() % static_cast<unsigned>(config.chunk_size)) + 1;
      const int64_t begin = std::max<int64_t>(0, end - *config.window_frames());
      EXPECT_LE(touched(begin, end, config.block_size_frames), *config.max_logical_blocks());
      EXPECT_LE(touched(begin, end + frames, config.block_size_frames), config.blocks_per_stream());
      end += frames;
    }
  }
}

}  // namespace
}  // namespace tutti
