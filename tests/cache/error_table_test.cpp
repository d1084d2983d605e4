// What goes wrong and what then happens, condition by condition, over all caches of a stream. Each test is a
// row: a condition, where it is met, what follows. ValueError is std::invalid_argument here, KeyError is
// UnknownStream, RuntimeError is PoolExhausted or std::logic_error.

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <vector>

#include "cache/attention_cache.hpp"
#include "cache/cnn_cache.hpp"
#include "cache/ctc_state.hpp"
#include "tests/cache/fake_decoder.hpp"
#include "tests/cache/host_ops.hpp"
#include "tests/cache/throws.hpp"

namespace tutti {
namespace {

using testing::Each;
using testing::ElementsAre;

/// Chunks and blocks of 4 frames, one chunk of history: 3 blocks a stream, 6 in all.
class CacheErrors : public testing::Test {
 protected:
  static constexpr CacheConfig config_{.num_layers = 2,
                                       .n_kv_head = 3,
                                       .head_dim = 8,
                                       .hidden_dim = 24,
                                       .kernel_size = 3,
                                       .chunk_size = 4,
                                       .num_left_chunks = 1,
                                       .max_streams = 2};
  static constexpr StreamId unknown_ = 9;
  static constexpr int unknown_slot_ = 1;
  const Shape context_shape_{2, 1, 2, 24};

  [[nodiscard]] Tensor packed_frames(int64_t frames) const {
    return host_tensor(DType::f32, {2, 3, frames, config_.kv_last_dim()});
  }

  HostOps ops_;
  FakeDecoder::Counts counts_;
  BlockPool pool_{config_, ops_};
  AttentionCacheManager attention_{pool_, config_};
  CnnCacheManager cnn_{config_, ops_};
  CtcStateCacheManager ctc_{std::make_unique<FakeDecoder>(counts_), 2};
};

TEST_F(CacheErrors, PoolExhaustedRaisesWithTheRequestedAndTheFreeCount) {
  std::vector<int32_t> blocks(4);
  pool_.allocate(blocks);
  expect_throws<PoolExhausted>([&] { pool_.allocate(std::span(blocks).first(3)); }, "requested 3", "2 of 6");
  // No stream meets it in mid-stream: admission already refuses what the pool could not hold.
  pool_.free(blocks);
  attention_.allocate_stream(1);
  attention_.allocate_stream(2);
  EXPECT_FALSE(attention_.can_admit());
  EXPECT_THROW(attention_.allocate_stream(3), PoolExhausted);
  for (int chunk = 0; chunk < 20; ++chunk) {
    for (const StreamId id : {1, 2}) attention_.prepare_chunk(id, 4);
    for (const StreamId id : {1, 2}) attention_.commit_chunk_paged(id, 4);
  }
}

TEST_F(CacheErrors, DuplicateAllocateStreamRaisesInAllThreeManagers) {
  attention_.allocate_stream(1);
  cnn_.allocate_stream(0);
  ctc_.allocate_stream(1);
  expect_throws<std::invalid_argument>([&] { attention_.allocate_stream(1); }, "stream 1", "already");
  expect_throws<std::invalid_argument>([&] { cnn_.allocate_stream(0); }, "slot 0", "already");
  expect_throws<std::invalid_argument>([&] { ctc_.allocate_stream(1); }, "stream 1", "already");
}

TEST_F(CacheErrors, OperatingOnAnUnknownOrFreedStreamRaisesInAllThreeManagers) {
  attention_.allocate_stream(unknown_);
  attention_.free_stream(unknown_);
  ctc_.allocate_stream(unknown_);
  ctc_.free_stream(unknown_);
  cnn_.allocate_stream(unknown_slot_);
  cnn_.free_stream(unknown_slot_);
  const std::array ids{unknown_};
  PagedKvCache batch(pool_, 1, attention_.table_width());
  EXPECT_THROW(attention_.free_stream(unknown_), UnknownStream);
  EXPECT_THROW(attention_.reset_stream(unknown_), UnknownStream);
  EXPECT_THROW(attention_.prepare_chunk(unknown_, 4), UnknownStream);
  EXPECT_THROW(attention_.prepare_chunks_batched(ids, std::array{4}), UnknownStream);
  EXPECT_THROW(attention_.fill_batch(ids, batch), UnknownStream);
  EXPECT_THROW((void)attention_.get_paged_state_views(unknown_), UnknownStream);
  EXPECT_THROW((void)attention_.get_paged_cache(unknown_, 0), UnknownStream);
  EXPECT_THROW(attention_.commit_chunk_paged(unknown_, 4), UnknownStream);
  EXPECT_THROW(attention_.commit(unknown_, packed_frames(4)), UnknownStream);
  EXPECT_THROW((void)attention_.get_stacked_cache(unknown_), UnknownStream);
  EXPECT_THROW((void)attention_.at_capacity(unknown_), UnknownStream);
  EXPECT_THROW((void)attention_.cached_frames(unknown_), UnknownStream);
  EXPECT_THROW((void)attention_.cached_frames(ids), UnknownStream);
  EXPECT_THROW((void)attention_.cache_begin(unknown_), UnknownStream);
  EXPECT_THROW((void)attention_.committed_frames(unknown_), UnknownStream);
  EXPECT_THROW((void)attention_.block_table(unknown_), UnknownStream);
  const Tensor context = host_tensor(DType::f32, context_shape_);
  EXPECT_THROW(cnn_.free_stream(unknown_slot_), UnknownStream);
  EXPECT_THROW(cnn_.reset_stream(unknown_slot_), UnknownStream);
  EXPECT_THROW(cnn_.read(unknown_slot_, context), UnknownStream);
  EXPECT_THROW(cnn_.update(unknown_slot_, context), UnknownStream);
  EXPECT_THROW(ctc_.free_stream(unknown_), UnknownStream);
  EXPECT_THROW((void)ctc_.get_decoder(unknown_), UnknownStream);
}

TEST_F(CacheErrors, PagedViewsBeforePrepareChunkRaise) {
  attention_.allocate_stream(1);
  PagedKvCache batch(pool_, 1, attention_.table_width());
  const auto expect_refusals = [&] {
    expect_throws<std::logic_error>([&] { (void)attention_.get_paged_state_views(1); },
                                    "get_paged_state_views", "stream 1", "no prepared chunk",
                                    "prepare_chunk");
    expect_throws<std::logic_error>([&] { (void)attention_.get_paged_cache(1, 0); }, "no prepared chunk");
    expect_throws<std::logic_error>([&] { attention_.fill_batch(std::array<StreamId, 1>{1}, batch); },
                                    "fill_batch", "no prepared chunk");
  };
  expect_refusals();
  attention_.prepare_chunk(1, 4);
  EXPECT_NO_THROW((void)attention_.get_paged_state_views(1));
  EXPECT_NO_THROW((void)attention_.get_paged_cache(1, 1));
  attention_.commit_chunk_paged(1, 4);
  expect_refusals();
}

TEST_F(CacheErrors, ShapeMismatchInCommitOrUpdateRaisesWithBothShapes) {
  attention_.allocate_stream(1);
  const auto commit = [&](const Shape& shape) { attention_.commit(1, host_tensor(DType::f32, shape)); };
  expect_throws<std::invalid_argument>([&] { commit({2, 3, 4, 8}); }, "2x3x4x8", "expected 2x3x4x16");
  expect_throws<std::invalid_argument>([&] { commit({1, 3, 4, 16}); }, "1x3x4x16", "expected 2x3x4x16");
  expect_throws<std::invalid_argument>([&] { commit({2, 4, 3, 16}); }, "2x4x3x16", "expected 2x3x3x16");
  expect_throws<std::invalid_argument>([&] { commit({6, 4, 16}); }, "6x4x16", "layers, heads, frames");
  expect_throws<std::invalid_argument>(
      [&] {
        attention_.commit(1, host_tensor(DType::bf16, {2, 3, 4, 16}));
      },
      "type");
  EXPECT_EQ(attention_.committed_frames(1), 0);
  EXPECT_EQ(pool_.num_free(), 6);
  cnn_.allocate_stream(0);
  expect_throws<std::invalid_argument>(
      [&] {
        cnn_.update(0, host_tensor(DType::f32, {2, 1, 3, 24}));
      },
      "shape 2x1x3x24", "expected 2x1x2x24");
}

TEST_F(CacheErrors, MoreFramesThanABlockInADenseCommitRaise) {
  CacheConfig config = config_;
  config.chunk_size = 6;
  BlockPool pool(CacheConfig(config_), ops_);
  config.block_size_frames = 4;
  config.max_streams = 1;
  AttentionCacheManager attention(pool, config);
  attention.allocate_stream(1);
  expect_throws<std::invalid_argument>([&] { attention.commit(1, packed_frames(5)); }, "5 frames",
                                       "at most 4, the block size");
  attention.commit(1, packed_frames(4));
  EXPECT_EQ(attention.cached_frames(1), 4);
}

TEST_F(CacheErrors, AFirstChunkNeedsNoPlaceholderConvolutionCacheBecauseItsSlotIsZero) {
  const std::vector<float> ones(2 * 2 * 24, 1.0F);
  cnn_.allocate_stream(0);
  cnn_.update(0, host_tensor(context_shape_, ones));
  cnn_.free_stream(0);
  cnn_.allocate_stream(0);
  const Tensor context = host_tensor(context_shape_, ones);
  cnn_.read(0, context);
  EXPECT_THAT(std::vector<float>(context.view().f32(), context.view().f32() + ones.size()), Each(0.0F));
}

TEST_F(CacheErrors, EvictionInsideABatchTouchesOnlyTheStreamsOwnTable) {
  for (const StreamId id : {1, 2}) attention_.allocate_stream(id);
  // Stream 1 has a full window and evicts at its next commit, stream 2 just begins.
  attention_.prepare_chunk(1, 4);
  attention_.commit_chunk_paged(1, 4);
  attention_.prepare_chunks_batched(std::array<StreamId, 2>{1, 2}, std::array{4, 4});
  const auto first = attention_.get_paged_state_views(1);
  const auto second = attention_.get_paged_state_views(2);
  const std::vector<int32_t> before(second.block_table.begin(), second.block_table.end());
  const int32_t newest = first.block_table[1];
  attention_.commit_chunk_paged(1, 4);
  EXPECT_THAT(first.block_table, ElementsAre(newest, 0, 0));
  EXPECT_TRUE(std::ranges::equal(second.block_table, before));
  EXPECT_THAT(second.cache_seqlens, ElementsAre(0));
}

}  // namespace
}  // namespace tutti
