#include "cache/paged_kv_cache.hpp"

#include <gmock/gmock.h>

#include <array>

#include "cache/attention_cache.hpp"
#include "tests/cache/host_ops.hpp"
#include "tests/cache/throws.hpp"

namespace tutti {
namespace {

using testing::ElementsAre;

/// Streams 1, 2 and 3 with a window of 8 frames in blocks of 4; 1 and 2 are prepared.
class PagedKvCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const StreamId id : {1, 2, 3}) attention_.allocate_stream(id);
    for (int i = 0; i < 3; ++i) {
      attention_.prepare_chunk(2, 3);
      attention_.commit_chunk_paged(2, 3);
    }
    attention_.prepare_chunk(1, 4);
    attention_.prepare_chunk(2, 4);
  }

  static constexpr CacheConfig config_{.num_layers = 2,
                                       .n_kv_head = 1,
                                       .head_dim = 2,
                                       .hidden_dim = 2,
                                       .chunk_size = 4,
                                       .num_left_chunks = 2,
                                       .max_streams = 3};
  HostOps ops_;
  BlockPool pool_{config_, ops_};
  AttentionCacheManager attention_{pool_, config_};
  PagedKvCache batch_{pool_, 2, attention_.table_width()};
};

TEST_F(PagedKvCacheTest, IsEmptyBeforeItIsFilled) {
  EXPECT_EQ(batch_.lanes(), 0);
  EXPECT_TRUE(batch_.layer(0).block_table.empty());
}

TEST_F(PagedKvCacheTest, HoldsTheLanesInTheOrderAskedFor) {
  attention_.fill_batch(std::array<StreamId, 2>{2, 1}, batch_);
  const PagedKv kv = batch_.layer(0);
  EXPECT_EQ(batch_.lanes(), 2);
  EXPECT_EQ(kv.table_width, attention_.table_width());
  EXPECT_THAT(kv.cache_seqlens, ElementsAre(8, 0));
  EXPECT_THAT(kv.cache_begin, ElementsAre(1, 0));
  const auto width = static_cast<size_t>(kv.table_width);
  EXPECT_EQ(kv.block_table.size(), 2 * width);
  for (size_t lane = 0; lane < 2; ++lane) {
    const auto blocks = attention_.block_table(lane == 0 ? 2 : 1);
    EXPECT_TRUE(std::ranges::equal(kv.block_table.subspan(lane * width, blocks.size()), blocks));
  }
}

TEST_F(PagedKvCacheTest, ATableRowIsZeroPastItsBlocksWhateverItHeldBefore) {
  attention_.fill_batch(std::array<StreamId, 1>{2}, batch_);
  attention_.fill_batch(std::array<StreamId, 1>{1}, batch_);
  const PagedKv kv = batch_.layer(0);
  EXPECT_EQ(batch_.lanes(), 1);
  EXPECT_THAT(kv.block_table.subspan(attention_.block_table(1).size()), testing::Each(0));
}

TEST_F(PagedKvCacheTest, EveryLayerSharesTheAddressingAndHasItsOwnMemory) {
  attention_.fill_batch(std::array<StreamId, 1>{1}, batch_);
  const PagedKv first = batch_.layer(0);
  const PagedKv second = batch_.layer(1);
  EXPECT_EQ(first.block_table.data(), second.block_table.data());
  EXPECT_EQ(first.k.data, pool_.get_kv_view(0).k.data);
  EXPECT_EQ(second.v.data, pool_.get_kv_view(1).v.data);
}

TEST_F(PagedKvCacheTest, RefusesALaneThatWasNotPreparedAndStaysAsItWas) {
  attention_.fill_batch(std::array<StreamId, 1>{1}, batch_);
  expect_throws<std::logic_error>(
      [&] {
        attention_.fill_batch(std::array<StreamId, 2>{2, 3}, batch_);
      },
      "stream 3", "no prepared chunk");
  EXPECT_EQ(batch_.lanes(), 1);
  EXPECT_THAT(batch_.layer(0).cache_seqlens, ElementsAre(0));
}

TEST_F(PagedKvCacheTest, RefusesAStreamItDoesNotKnow) {
  expect_throws<UnknownStream>([&] { attention_.fill_batch(std::array<StreamId, 1>{9}, batch_); },
                               "stream 9");
}

TEST_F(PagedKvCacheTest, RefusesAStreamThatComesTwice) {
  expect_throws<std::invalid_argument>(
      [&] {
        attention_.fill_batch(std::array<StreamId, 2>{1, 1}, batch_);
      },
      "stream 1", "twice");
}

TEST_F(PagedKvCacheTest, RefusesMoreLanesThanItWasSizedFor) {
  attention_.prepare_chunk(3, 1);
  expect_throws<std::invalid_argument>(
      [&] {
        attention_.fill_batch(std::array<StreamId, 3>{1, 2, 3}, batch_);
      },
      "3 lanes", "at most 2");
}

TEST_F(PagedKvCacheTest, RefusesATableOfAnotherWidth) {
  PagedKvCache narrow(pool_, 2, attention_.table_width() - 1);
  expect_throws<std::invalid_argument>([&] { attention_.fill_batch(std::array<StreamId, 1>{1}, narrow); },
                                       "table width 3", "expected 4");
}

TEST_F(PagedKvCacheTest, RefusesToHaveNoLanesOrNoTable) {
  EXPECT_THROW(PagedKvCache(pool_, 0, 1), std::invalid_argument);
  EXPECT_THROW(PagedKvCache(pool_, 1, 0), std::invalid_argument);
}

}  // namespace
}  // namespace tutti
