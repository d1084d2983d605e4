#include "cache/attention_cache.hpp"

#include <gmock/gmock.h>

#include <array>
#include <vector>

#include "tests/cache/host_ops.hpp"
#include "tests/cache/throws.hpp"

namespace tutti {
namespace {

CacheConfig tiny(int left, int max_streams) {
  return {.num_layers = 1,
          .n_kv_head = 1,
          .head_dim = 2,
          .hidden_dim = 2,
          .chunk_size = 4,
          .num_left_chunks = left,
          .max_blocks_per_seq = 4,
          .max_streams = max_streams};
}

/// Chunks and blocks of 4 frames, 2 chunks of history: 4 blocks a stream. The manager has rows for 4 streams,
/// the pool blocks for 3.
class AttentionCacheManagerTest : public testing::Test {
 protected:
  void prepare_batch(std::vector<StreamId> ids, std::vector<int> frames) {
    attention_.prepare_chunks_batched(ids, frames);
  }
  void run_chunk(StreamId id, int frames) {
    attention_.prepare_chunk(id, frames);
    attention_.commit_chunk_paged(id, frames);
  }
  std::vector<int32_t> take_all_but(int free) {
    std::vector<int32_t> blocks(static_cast<size_t>(pool_.num_free() - free));
    pool_.allocate(blocks);
    return blocks;
  }
  [[nodiscard]] size_t blocks(StreamId id) const { return attention_.block_table(id).size(); }

  HostOps ops_;
  BlockPool pool_{tiny(2, 3), ops_};
  AttentionCacheManager attention_{pool_, tiny(2, 4)};
};

TEST_F(AttentionCacheManagerTest, AdmissionReservesHistoryAndADispatchAndTakesNothing) {
  attention_.allocate_stream(1);
  EXPECT_EQ(attention_.reserved_blocks(), 3 + 1);
  EXPECT_EQ(attention_.table_width(), 3 + 1);
  EXPECT_EQ(pool_.num_free(), 12);
  EXPECT_EQ(attention_.cached_frames(1), 0);
}

TEST_F(AttentionCacheManagerTest, StatesRequestedAndAvailableWhenThePoolIsReserved) {
  for (const StreamId id : {1, 2}) attention_.allocate_stream(id);
  EXPECT_TRUE(attention_.can_admit());
  attention_.allocate_stream(3);
  EXPECT_FALSE(attention_.can_admit());
  expect_throws<PoolExhausted>([&] { attention_.allocate_stream(4); }, "requested 4 blocks", "0 of 12");
  EXPECT_EQ(attention_.num_streams(), 3);
  attention_.free_stream(2);
  EXPECT_TRUE(attention_.can_admit());
  attention_.allocate_stream(4);
}

TEST_F(AttentionCacheManagerTest, StatesRequestedAndAvailableWhenEveryRowIsTaken) {
  BlockPool large(tiny(2, 4), ops_);
  AttentionCacheManager small(large, tiny(2, 1));
  small.allocate_stream(1);
  EXPECT_FALSE(small.can_admit());
  expect_throws<PoolExhausted>([&] { small.allocate_stream(2); }, "requested 1", "0 of 1");
}

TEST_F(AttentionCacheManagerTest, RefusesADuplicateAlsoWhenFull) {
  for (const StreamId id : {1, 2, 3}) attention_.allocate_stream(id);
  expect_throws<std::invalid_argument>([&] { attention_.allocate_stream(2); }, "stream 2", "already");
}

TEST_F(AttentionCacheManagerTest, NoFunctionKnowsAFreedStream) {
  attention_.allocate_stream(1);
  attention_.free_stream(1);
  expect_throws<UnknownStream>([&] { attention_.free_stream(1); }, "free_stream", "stream 1");
  expect_throws<UnknownStream>([&] { attention_.reset_stream(1); }, "reset_stream");
  expect_throws<UnknownStream>([&] { attention_.prepare_chunk(1, 1); }, "stream 1");
  expect_throws<UnknownStream>([&] { attention_.commit_chunk_paged(1, 1); }, "commit_chunk_paged");
  expect_throws<UnknownStream>([&] { (void)attention_.at_capacity(1); }, "at_capacity");
  expect_throws<UnknownStream>([&] { (void)attention_.cached_frames(1); }, "cached_frames");
  expect_throws<UnknownStream>([&] { (void)attention_.cache_begin(1); }, "cache_begin");
  expect_throws<UnknownStream>([&] { (void)attention_.committed_frames(1); }, "committed_frames");
  expect_throws<UnknownStream>([&] { (void)attention_.block_table(1); }, "block_table");
}

TEST_F(AttentionCacheManagerTest, FreeAndResetGiveBackPreparedAndRetainedBlocks) {
  for (const StreamId id : {1, 2}) {
    attention_.allocate_stream(id);
    run_chunk(id, 4);
    attention_.prepare_chunk(id, 4);
  }
  EXPECT_EQ(pool_.num_free(), 8);
  attention_.free_stream(1);
  EXPECT_EQ(pool_.num_free(), 10);
  attention_.reset_stream(2);
  EXPECT_EQ(pool_.num_free(), 12);
  EXPECT_EQ(attention_.reserved_blocks(), 4);
  EXPECT_EQ(attention_.committed_frames(2), 0);
  EXPECT_THROW(attention_.commit_chunk_paged(2, 1), std::logic_error) << "the prepared chunk is gone";
}

TEST_F(AttentionCacheManagerTest, AReusedRowStartsEmpty) {
  attention_.allocate_stream(1);
  run_chunk(1, 3);
  attention_.prepare_chunk(1, 4);
  attention_.free_stream(1);
  attention_.allocate_stream(2);
  EXPECT_EQ(attention_.cached_frames(2), 0);
  EXPECT_EQ(attention_.committed_frames(2), 0);
  EXPECT_EQ(blocks(2), 0U);
  EXPECT_THROW(attention_.commit_chunk_paged(2, 1), std::logic_error);
}

TEST_F(AttentionCacheManagerTest, RefusesToPrepareNothingOrMoreThanAChunk) {
  attention_.allocate_stream(1);
  expect_throws<std::invalid_argument>([&] { attention_.prepare_chunk(1, 0); }, "0 frames", "1 to 4");
  expect_throws<std::invalid_argument>([&] { attention_.prepare_chunk(1, 5); }, "5 frames", "1 to 4");
}

TEST_F(AttentionCacheManagerTest, AllocatesABlockOnlyWhenTheWriteRangeCrossesABoundary) {
  attention_.allocate_stream(1);
  for (const auto& [frames, expected] : {std::pair{3, 1U}, {1, 1U}, {1, 2U}, {2, 2U}, {4, 3U}}) {
    run_chunk(1, frames);
    EXPECT_EQ(blocks(1), expected) << "after " << attention_.committed_frames(1) << " frames";
  }
}

TEST_F(AttentionCacheManagerTest, PreparingAgainForTheSameOrFewerFramesChangesNothing) {
  attention_.allocate_stream(1);
  run_chunk(1, 2);
  attention_.prepare_chunk(1, 3);
  const std::vector<int32_t> before(attention_.block_table(1).begin(), attention_.block_table(1).end());
  for (const int frames : {3, 1}) {
    attention_.prepare_chunk(1, frames);
    EXPECT_TRUE(std::ranges::equal(attention_.block_table(1), before));
  }
  attention_.commit_chunk_paged(1, 3);
}

TEST_F(AttentionCacheManagerTest, PreparingAgainForMoreFramesAddsTheirBlock) {
  attention_.allocate_stream(1);
  run_chunk(1, 2);
  attention_.prepare_chunk(1, 2);
  EXPECT_EQ(blocks(1), 1U);
  attention_.prepare_chunk(1, 3);
  EXPECT_EQ(blocks(1), 2U);
  attention_.commit_chunk_paged(1, 3);
}

TEST_F(AttentionCacheManagerTest, FreesTheBlocksThatOnlyAnUncommittedSurplusNeeded) {
  attention_.allocate_stream(1);
  run_chunk(1, 2);
  attention_.prepare_chunk(1, 4);
  EXPECT_EQ(blocks(1), 2U);
  attention_.commit_chunk_paged(1, 1);
  EXPECT_EQ(blocks(1), 1U);
  EXPECT_EQ(attention_.cached_frames(1), 3);
  EXPECT_EQ(pool_.num_free(), 11);
}

TEST_F(AttentionCacheManagerTest, CommittingNothingAbandonsThePreparedChunk) {
  attention_.allocate_stream(1);
  attention_.prepare_chunk(1, 4);
  attention_.commit_chunk_paged(1, 0);
  EXPECT_EQ(pool_.num_free(), 12);
  EXPECT_THROW(attention_.commit_chunk_paged(1, 1), std::logic_error);
}

TEST_F(AttentionCacheManagerTest, RefusesToCommitMoreThanWasPrepared) {
  attention_.allocate_stream(1);
  expect_throws<std::logic_error>([&] { attention_.commit_chunk_paged(1, 1); }, "1 frames", "0 prepared");
  attention_.prepare_chunk(1, 3);
  expect_throws<std::logic_error>([&] { attention_.commit_chunk_paged(1, 4); }, "4 frames", "3 prepared");
  EXPECT_EQ(attention_.committed_frames(1), 0);
  attention_.commit_chunk_paged(1, 3);
  expect_throws<std::logic_error>([&] { attention_.commit_chunk_paged(1, 1); }, "0 prepared");
}

TEST_F(AttentionCacheManagerTest, RefusesToCommitANegativeNumberOfFrames) {
  attention_.allocate_stream(1);
  attention_.prepare_chunk(1, 3);
  expect_throws<std::invalid_argument>([&] { attention_.commit_chunk_paged(1, -1); }, "-1 frames");
}

TEST_F(AttentionCacheManagerTest, ABatchTakesAllItsBlocksInOneAllocation) {
  for (const StreamId id : {1, 2, 3}) attention_.allocate_stream(id);
  const auto taken = take_all_but(2);
  expect_throws<PoolExhausted>([&] { prepare_batch({1, 2, 3}, {4, 4, 4}); }, "requested 3", "2 of 12");
  EXPECT_EQ(pool_.num_free(), 2);
  for (const StreamId id : {1, 2, 3}) {
    EXPECT_EQ(blocks(id), 0U);
    EXPECT_THROW(attention_.commit_chunk_paged(id, 1), std::logic_error) << "nothing was prepared";
  }
  pool_.free(taken);
  prepare_batch({1, 2, 3}, {4, 4, 4});
  EXPECT_EQ(pool_.num_free(), 9);
}

TEST_F(AttentionCacheManagerTest, ABatchWhoseLanesNeedNoBlockPassesOnAnEmptyPool) {
  attention_.allocate_stream(1);
  run_chunk(1, 2);
  const auto taken = take_all_but(0);
  prepare_batch({1}, {2});
  attention_.commit_chunk_paged(1, 2);
  EXPECT_EQ(attention_.cached_frames(1), 4);
}

TEST_F(AttentionCacheManagerTest, ARefusedLaneLeavesTheWholeBatchUnprepared) {
  for (const StreamId id : {1, 2}) attention_.allocate_stream(id);
  EXPECT_THROW(prepare_batch({1, 9}, {4, 4}), UnknownStream);
  EXPECT_THROW(prepare_batch({1, 2}, {4, 5}), std::invalid_argument);
  expect_throws<std::invalid_argument>([&] { prepare_batch({1, 2, 1}, {4, 4, 4}); }, "stream 1", "twice");
  expect_throws<std::invalid_argument>([&] { prepare_batch({1, 2}, {4}); }, "1 frame counts", "expected 2");
  EXPECT_EQ(pool_.num_free(), 12);
  EXPECT_THROW(attention_.commit_chunk_paged(1, 1), std::logic_error);
}

TEST_F(AttentionCacheManagerTest, RefusesABlockSizeThatIsNotThePools) {
  CacheConfig config = tiny(2, 2);
  config.block_size_frames = 2;
  config.max_blocks_per_seq = 16;
  expect_throws<std::invalid_argument>([&] { AttentionCacheManager(pool_, config); }, "block_size_frames = 2",
                                       "expected 4");
}

/// Unlimited history: a share of 4 blocks of 4 frames.
class UnlimitedHistoryTest : public testing::Test {
 protected:
  void run_chunk(int frames) {
    attention_.prepare_chunk(1, frames);
    attention_.commit_chunk_paged(1, frames);
  }
  void SetUp() override { attention_.allocate_stream(1); }

  HostOps ops_;
  BlockPool pool_{tiny(-1, 2), ops_};
  AttentionCacheManager attention_{pool_, tiny(-1, 2)};
};

TEST_F(UnlimitedHistoryTest, KeepsEveryFrame) {
  for (int i = 1; i <= 4; ++i) {
    run_chunk(4);
    EXPECT_EQ(attention_.cached_frames(1), 4 * i);
    EXPECT_EQ(attention_.cache_begin(1), 0);
  }
  EXPECT_EQ(attention_.block_table(1).size(), 4U);
}

TEST_F(UnlimitedHistoryTest, IsAtCapacityWhenTheNextFullChunkWouldPassItsShare) {
  for (const int frames : {4, 4, 4}) {
    EXPECT_FALSE(attention_.at_capacity(1));
    run_chunk(frames);
  }
  EXPECT_FALSE(attention_.at_capacity(1)) << "12 of 16 frames: one full chunk fits";
  run_chunk(1);
  EXPECT_TRUE(attention_.at_capacity(1));
}

TEST_F(UnlimitedHistoryTest, AtCapacityAShortChunkStillFits) {
  for (const int frames : {4, 4, 4, 1, 3}) run_chunk(frames);
  EXPECT_EQ(attention_.cached_frames(1), 16);
}

TEST_F(UnlimitedHistoryTest, RefusesAChunkPastCapacityAndKeepsTheHistory) {
  for (const int frames : {4, 4, 4, 2}) run_chunk(frames);
  expect_throws<std::logic_error>([&] { attention_.prepare_chunk(1, 3); }, "stream 1", "needs 5",
                                  "at most 4");
  EXPECT_EQ(attention_.cached_frames(1), 14);
  EXPECT_EQ(attention_.block_table(1).size(), 4U);
}

TEST_F(UnlimitedHistoryTest, OneStreamAtCapacityDoesNotTouchAnothersShare) {
  attention_.allocate_stream(2);
  EXPECT_FALSE(attention_.can_admit());
  for (int i = 0; i < 4; ++i) run_chunk(4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(attention_.at_capacity(2));
    attention_.prepare_chunk(2, 4);
    attention_.commit_chunk_paged(2, 4);
  }
  EXPECT_EQ(pool_.num_free(), 0);
}

TEST_F(UnlimitedHistoryTest, ResetMakesRoomAgain) {
  for (int i = 0; i < 4; ++i) run_chunk(4);
  attention_.reset_stream(1);
  EXPECT_FALSE(attention_.at_capacity(1));
  run_chunk(4);
}

}  // namespace
}  // namespace tutti
