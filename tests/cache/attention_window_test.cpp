// Histories that are not simply what was said so far: a window that is there from the start, and one whose
// oldest block makes way at capacity.

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <vector>

#include "cache/attention_cache.hpp"
#include "tests/cache/host_ops.hpp"
#include "tests/cache/throws.hpp"

namespace tutti {
namespace {

using testing::ElementsAre;

CacheConfig tiny(int chunk, int block, int left) {
  return {.num_layers = 2,
          .n_kv_head = 1,
          .head_dim = 2,
          .hidden_dim = 2,
          .chunk_size = chunk,
          .num_left_chunks = left,
          .block_size_frames = block,
          .max_blocks_per_seq = 64,
          .max_streams = 2};
}

CacheConfig prefilled(int chunk, int block, int left) {
  CacheConfig config = tiny(chunk, block, left);
  config.prefill_kv_window = true;
  return config;
}

void poison(const BlockPool& pool) {
  for (int layer = 0; layer < pool.config().num_layers; ++layer) {
    const BlockPool::KvView kv = pool.get_kv_view(layer);
    std::fill_n(kv.k.f32(), kv.k.shape.elements(), NAN);
    std::fill_n(kv.v.f32(), kv.v.shape.elements(), NAN);
  }
}

class PrefilledWindow : public testing::Test {
 protected:
  void run_chunk(StreamId id, int frames) {
    attention_.prepare_chunk(id, frames);
    attention_.commit_chunk_paged(id, frames);
  }
  void expect_zeroed(StreamId id) {
    const Tensor stacked = attention_.get_stacked_cache(id);
    EXPECT_EQ(stacked.shape(), (Shape{2, 1, 6, 4}));
    const TensorView view = stacked;
    EXPECT_THAT(std::vector<float>(view.f32(), view.f32() + view.shape.elements()), testing::Each(0.0F));
  }

  // 6 frames of window: one block and half of the next.
  HostOps ops_;
  BlockPool pool_{prefilled(3, 4, 2), ops_};
  AttentionCacheManager attention_{pool_, pool_.config()};
};

TEST_F(PrefilledWindow, IsHandedOutZeroedAtAdmissionFromAPoolFullOfNans) {
  poison(pool_);
  attention_.allocate_stream(1);
  EXPECT_EQ(attention_.cached_frames(1), 6);
  EXPECT_EQ(attention_.committed_frames(1), 0);
  EXPECT_EQ(attention_.block_table(1).size(), 2U);
  EXPECT_EQ(pool_.num_free(), pool_.num_blocks() - 2);
  expect_zeroed(1);
}

TEST_F(PrefilledWindow, KeepsItsLengthFromTheFirstChunkOn) {
  attention_.allocate_stream(1);
  for (const int frames : {3, 3, 1, 2, 3, 3, 3}) {
    run_chunk(1, frames);
    EXPECT_EQ(attention_.cached_frames(1), 6);
    EXPECT_LE(static_cast<int>(attention_.block_table(1).size()), *pool_.config().max_logical_blocks());
  }
  EXPECT_EQ(attention_.committed_frames(1), 18);
}

TEST_F(PrefilledWindow, MakesStreamsOfAnyAgeOneLength) {
  attention_.allocate_stream(1);
  for (int i = 0; i < 5; ++i) run_chunk(1, 3);
  attention_.allocate_stream(2);
  const std::array<StreamId, 2> ids{1, 2};
  attention_.prepare_chunks_batched(ids, std::array{3, 3});
  PagedKvCache batch(pool_, 2, attention_.table_width());
  attention_.fill_batch(ids, batch);
  EXPECT_THAT(batch.layer(0).cache_seqlens, ElementsAre(6, 6));
}

TEST_F(PrefilledWindow, IsZeroedAgainByAReset) {
  attention_.allocate_stream(1);
  run_chunk(1, 3);
  poison(pool_);
  attention_.reset_stream(1);
  EXPECT_EQ(attention_.cached_frames(1), 6);
  EXPECT_EQ(attention_.cache_begin(1), 0);
  expect_zeroed(1);
}

TEST_F(PrefilledWindow, IsNotAdmittedWhenAnOutsiderHoldsItsBlocks) {
  std::vector<int32_t> taken(static_cast<size_t>(pool_.num_free() - 1));
  pool_.allocate(taken);
  expect_throws<PoolExhausted>([&] { attention_.allocate_stream(1); }, "requested 2", "1 of");
  EXPECT_EQ(attention_.num_streams(), 0);
  EXPECT_EQ(pool_.num_free(), 1);
  pool_.free(taken);
  attention_.allocate_stream(1);
  EXPECT_EQ(attention_.cached_frames(1), 6);
}

TEST_F(PrefilledWindow, ReturnsEveryBlockWhenItIsFreed) {
  attention_.allocate_stream(1);
  run_chunk(1, 3);
  attention_.free_stream(1);
  EXPECT_EQ(pool_.num_free(), pool_.num_blocks());
}

/// Unlimited history in a share of 4 blocks of 4 frames, the oldest making way.
class RecyclingHistory : public testing::Test {
 protected:
  static CacheConfig config() {
    CacheConfig config = tiny(4, 4, -1);
    config.max_num_blocks = 8;
    config.recycle_at_capacity = true;
    return config;
  }
  void SetUp() override { attention_.allocate_stream(1); }
  void run_chunk(int frames) {
    attention_.prepare_chunk(1, frames);
    attention_.commit_chunk_paged(1, frames);
  }

  HostOps ops_;
  BlockPool pool_{config(), ops_};
  AttentionCacheManager attention_{pool_, pool_.config()};
};

TEST_F(RecyclingHistory, DropsItsOldestBlockWhenTheNextFullChunkWouldPassItsShare) {
  std::vector<int> cached;
  for (int i = 0; i < 7; ++i) {
    run_chunk(4);
    cached.push_back(attention_.cached_frames(1));
  }
  EXPECT_THAT(cached, ElementsAre(4, 8, 12, 12, 12, 12, 12));
  EXPECT_EQ(attention_.committed_frames(1), 28);
}

TEST_F(RecyclingHistory, DropsWholeBlocksAndMovesNone) {
  for (int i = 0; i < 3; ++i) run_chunk(4);
  const std::vector<int32_t> before(attention_.block_table(1).begin(), attention_.block_table(1).end());
  run_chunk(2);
  EXPECT_EQ(attention_.cached_frames(1), 10);
  EXPECT_EQ(attention_.cache_begin(1), 0);
  EXPECT_THAT(attention_.block_table(1).first(2), ElementsAre(before[1], before[2]));
}

TEST_F(RecyclingHistory, IsNeverAtCapacityAndNeverHoldsMoreThanItsShare) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_FALSE(attention_.at_capacity(1));
    attention_.prepare_chunk(1, 1 + i % 4);
    EXPECT_LE(static_cast<int>(attention_.block_table(1).size()), attention_.table_width());
    attention_.commit_chunk_paged(1, 1 + i % 4);
    EXPECT_EQ(pool_.num_free(), 8 - static_cast<int>(attention_.block_table(1).size()));
  }
}

TEST_F(RecyclingHistory, LeavesAnothersShareAlone) {
  attention_.allocate_stream(2);
  for (int i = 0; i < 20; ++i) run_chunk(4);
  for (int i = 0; i < 20; ++i) {
    attention_.prepare_chunk(2, 4);
    attention_.commit_chunk_paged(2, 4);
  }
  EXPECT_EQ(attention_.cached_frames(2), 12);
}

/// The narrowest share there is: a block of history and a chunk.
TEST(RecyclingInTheNarrowestShare, KeepsThePartlyWrittenBlock) {
  for (const auto& [chunk, block] : {std::array{4, 4}, {6, 4}, {3, 8}, {1, 1}}) {
    CacheConfig config = tiny(chunk, block, -1);
    config.recycle_at_capacity = true;
    config.max_streams = 1;
    config.max_num_blocks = static_cast<int>(CacheConfig(config).min_blocks_per_stream());
    HostOps ops;
    BlockPool pool(config, ops);
    AttentionCacheManager attention(pool, pool.config());
    attention.allocate_stream(1);
    int64_t committed = 0;
    for (int i = 0; i < 200; ++i) {
      const int frames = 1 + i % chunk;
      attention.prepare_chunk(1, frames);
      attention.commit_chunk_paged(1, frames);
      committed += frames;
      EXPECT_GE(attention.cached_frames(1), committed % block);
      EXPECT_EQ(attention.cache_begin(1), 0);
    }
  }
}

}  // namespace
}  // namespace tutti
