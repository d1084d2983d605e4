#include "cache/decoder_kv.hpp"

#include <gmock/gmock.h>

#include <array>
#include <vector>

#include "tests/cache/host_ops.hpp"
#include "tests/cache/throws.hpp"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

constexpr DecoderKvConfig small_config{.num_layers = 2,
                                       .n_kv_head = 1,
                                       .head_dim = 2,
                                       .page_tokens = 4,
                                       .max_rows = 5,
                                       .max_row_tokens = 12,
                                       .num_pages = 7};

class DecoderKvCache : public testing::Test {
 protected:
  void prepare(StreamId id, int tokens) { cache_.prepare_step(std::span(&id, 1), std::span(&tokens, 1)); }
  void step(StreamId id, int tokens = 1) {
    prepare(id, tokens);
    cache_.commit_step(id, tokens);
  }
  [[nodiscard]] int owned() const { return cache_.pool().num_blocks() - cache_.pool().num_free(); }

  HostOps ops_;
  DecoderKvCacheManager cache_{small_config, ops_};
};

TEST_F(DecoderKvCache, MapsAPageAsARowCrossesABoundary) {
  cache_.allocate_row(1, 12);
  EXPECT_THAT(cache_.block_table(1), SizeIs(0));
  for (const size_t pages : {1, 1, 1, 1, 2, 2, 2, 2, 3}) {
    step(1);
    EXPECT_THAT(cache_.block_table(1), SizeIs(pages));
  }
  EXPECT_EQ(cache_.cached_tokens(1), 9);
  EXPECT_EQ(owned(), 3);
}

TEST_F(DecoderKvCache, FreesARowWholeAndItsReservation) {
  cache_.allocate_row(1, 12);
  step(1, 9);
  EXPECT_EQ(cache_.reserved_pages(), 3);
  cache_.free_row(1);
  EXPECT_EQ(owned(), 0);
  EXPECT_EQ(cache_.reserved_pages(), 0);
  EXPECT_EQ(cache_.num_rows(), 0);
  cache_.allocate_row(1, 4);
  EXPECT_EQ(cache_.cached_tokens(1), 0);
  EXPECT_THAT(cache_.block_table(1), SizeIs(0));
}

TEST_F(DecoderKvCache, MapsARegionForCrossAttentionAtOnceAndDoesNotLetItGrow) {
  cache_.allocate_row(1, 10, 10);
  EXPECT_THAT(cache_.block_table(1), SizeIs(3));
  EXPECT_EQ(cache_.cached_tokens(1), 0);
  cache_.commit_step(1, 10);
  EXPECT_EQ(cache_.cached_tokens(1), 10);
  expect_throws<std::logic_error>([&] { prepare(1, 1); }, "row 1", "holds 10 tokens", "1 more", "the 10");
}

TEST_F(DecoderKvCache, AdmitsRowsOnlyWhenTheirCeilingsFitTogether) {
  EXPECT_TRUE(cache_.can_admit(std::array{12, 12, 4}));
  EXPECT_FALSE(cache_.can_admit(std::array{12, 12, 5}));
  cache_.allocate_row(1, 12);
  EXPECT_TRUE(cache_.can_admit(std::array{12, 4}));
  EXPECT_FALSE(cache_.can_admit(std::array{12, 4, 1})) << "the unused pages of row 1 are promised";
  EXPECT_TRUE(cache_.can_admit({}));
}

TEST_F(DecoderKvCache, AdmitsNoMoreRowsThanItHasAndNoneBeyondTheLargestCeiling) {
  EXPECT_TRUE(cache_.can_admit(std::array{1, 1, 1, 1, 1}));
  EXPECT_FALSE(cache_.can_admit(std::array{1, 1, 1, 1, 1, 1}));
  EXPECT_FALSE(cache_.can_admit(std::array{13}));
  EXPECT_FALSE(cache_.can_admit(std::array{0}));
  for (StreamId id = 1; id <= 5; ++id) cache_.allocate_row(id, 4);
  expect_throws<PoolExhausted>([&] { cache_.allocate_row(6, 4); }, "requested 1 row", "0 of 5");
}

TEST_F(DecoderKvCache, StatesRequestedAndAvailableAndChangesNothingWhenExhausted) {
  cache_.allocate_row(1, 12);
  cache_.allocate_row(2, 12);
  expect_throws<PoolExhausted>([&] { cache_.allocate_row(3, 8); }, "row 3", "requested 2 pages", "1 of 7");
  EXPECT_EQ(cache_.num_rows(), 2);
  EXPECT_EQ(cache_.reserved_pages(), 6);
  cache_.allocate_row(3, 4);
}

TEST_F(DecoderKvCache, RefusesImpossibleRows) {
  cache_.allocate_row(1, 4);
  expect_throws<std::invalid_argument>([&] { cache_.allocate_row(1, 4); }, "row 1 is already allocated");
  expect_throws<std::invalid_argument>([&] { cache_.allocate_row(2, 13); }, "max_tokens = 13", "1 to 12");
  expect_throws<std::invalid_argument>([&] { cache_.allocate_row(2, 0); }, "max_tokens = 0", "1 to 12");
  expect_throws<std::invalid_argument>([&] { cache_.allocate_row(2, 4, 5); }, "prefill_len = 5", "0 to 4");
  expect_throws<std::invalid_argument>([&] { cache_.allocate_row(2, 4, -1); }, "prefill_len = -1", "0 to 4");
  EXPECT_EQ(cache_.num_rows(), 1);
}

TEST_F(DecoderKvCache, NamesARowThatIsNotThere) {
  PagedDecoderKv batch(cache_.pool(), 2, cache_.table_width());
  expect_throws<UnknownStream>([&] { cache_.free_row(9); }, "row 9 is not allocated");
  expect_throws<UnknownStream>([&] { prepare(9, 1); }, "row 9");
  expect_throws<UnknownStream>([&] { cache_.commit_step(9, 1); }, "row 9");
  expect_throws<UnknownStream>([&] { (void)cache_.cached_tokens(9); }, "row 9");
  expect_throws<UnknownStream>([&] { (void)cache_.block_table(9); }, "row 9");
  expect_throws<UnknownStream>([&] { cache_.fill_batch(std::array<StreamId, 1>{9}, batch); }, "row 9");
}

TEST_F(DecoderKvCache, PreparesAllLanesOrNone) {
  cache_.allocate_row(1, 12);
  cache_.allocate_row(2, 4);
  const std::array<StreamId, 2> ids{1, 2};
  expect_throws<std::logic_error>([&] { cache_.prepare_step(ids, std::array{1, 5}); }, "row 2", "5 more");
  expect_throws<std::invalid_argument>(
      [&] {
        cache_.prepare_step(ids, std::array{1, 0});
      },
      "row 2", "0 tokens");
  expect_throws<std::invalid_argument>([&] { cache_.prepare_step(ids, std::array{1}); }, "1 token counts",
                                       "expected 2");
  expect_throws<std::invalid_argument>(
      [&] {
        cache_.prepare_step(std::array<StreamId, 2>{1, 1}, std::array{1, 1});
      },
      "row 1", "twice");
  EXPECT_EQ(owned(), 0);
  cache_.prepare_step(ids, std::array{5, 4});
  EXPECT_EQ(owned(), 3);
}

TEST_F(DecoderKvCache, PreparesAgainForTheSameTokensWithoutFurtherPages) {
  cache_.allocate_row(1, 12);
  prepare(1, 8);
  prepare(1, 3);
  EXPECT_EQ(owned(), 2);
  cache_.commit_step(1, 8);
  EXPECT_EQ(cache_.cached_tokens(1), 8);
}

TEST_F(DecoderKvCache, KeepsThePagesOfAnAbandonedStepForTheNext) {
  cache_.allocate_row(1, 12);
  prepare(1, 6);
  cache_.commit_step(1, 0);
  EXPECT_EQ(cache_.cached_tokens(1), 0);
  expect_throws<std::logic_error>([&] { cache_.commit_step(1, 1); }, "row 1", "commits 1", "the 0 prepared");
  step(1, 2);
  EXPECT_EQ(owned(), 2);
}

TEST_F(DecoderKvCache, CommitsNoMoreThanWasPrepared) {
  cache_.allocate_row(1, 12);
  prepare(1, 2);
  expect_throws<std::logic_error>([&] { cache_.commit_step(1, 3); }, "commits 3", "the 2 prepared");
  expect_throws<std::logic_error>([&] { cache_.commit_step(1, -1); }, "commits -1");
  cache_.commit_step(1, 2);
}

TEST_F(DecoderKvCache, FillsABatchWithTablesAndLengths) {
  cache_.allocate_row(1, 12);
  cache_.allocate_row(2, 12);
  step(1, 5);
  step(2, 1);
  prepare(1, 1);
  PagedDecoderKv batch(cache_.pool(), 3, cache_.table_width());
  cache_.fill_batch(std::array<StreamId, 2>{2, 1}, batch);
  EXPECT_EQ(batch.lanes(), 2);
  const DecoderKv kv = batch.layer(1);
  EXPECT_EQ(kv.table_width, 3);
  EXPECT_THAT(kv.cache_seqlens, ElementsAre(1, 5));
  const auto first = cache_.block_table(1);
  EXPECT_THAT(kv.block_table, ElementsAre(cache_.block_table(2)[0], 0, 0, first[0], first[1], 0));
  EXPECT_EQ(kv.k.data, cache_.pool().get_kv_view(1).k.data);
  EXPECT_EQ(kv.k_scales.data, nullptr);
}

TEST_F(DecoderKvCache, LetsLanesShareARowThatNobodyWrites) {
  cache_.allocate_row(1, 12, 12);
  PagedDecoderKv batch(cache_.pool(), 3, cache_.table_width());
  const std::array<StreamId, 2> twice{1, 1};
  expect_throws<std::invalid_argument>([&] { cache_.fill_batch(twice, batch); }, "row 1", "twice");
  cache_.commit_step(1, 12);
  cache_.fill_batch(twice, batch);
  EXPECT_THAT(batch.layer(0).cache_seqlens, ElementsAre(12, 12));
}

TEST_F(DecoderKvCache, RefusesABatchOfAnotherSize) {
  cache_.allocate_row(1, 4);
  cache_.allocate_row(2, 4);
  const std::array<StreamId, 2> ids{1, 2};
  PagedDecoderKv narrow(cache_.pool(), 2, 2);
  PagedDecoderKv small(cache_.pool(), 1, 3);
  expect_throws<std::invalid_argument>([&] { cache_.fill_batch(ids, narrow); }, "table width 2",
                                       "expected 3");
  expect_throws<std::invalid_argument>([&] { cache_.fill_batch(ids, small); }, "2 lanes", "at most 1");
  expect_throws<std::invalid_argument>([&] { PagedDecoderKv(cache_.pool(), 0, 3); }, "max_lanes = 0");
  expect_throws<std::invalid_argument>([&] { PagedDecoderKv(cache_.pool(), 1, 0); }, "table_width = 0");
}

TEST_F(DecoderKvCache, RefusesToSelectPagedRows) {
  PagedDecoderKv batch(cache_.pool(), 2, cache_.table_width());
  expect_throws<std::logic_error>(
      [&] {
        batch.select(std::array<int32_t, 2>{0, 0});
      },
      "alias", "DenseDecoderKv");
}

TEST(DecoderKvCacheFp8, HasScalesBesideItsPagesZeroedAsTheyAre) {
  HostOps ops;
  DecoderKvConfig config = small_config;
  config.format = DType::f8e4m3;
  DecoderKvCacheManager cache(config, ops);
  PagedDecoderKv batch(cache.pool(), 1, cache.table_width());
  const DecoderKv kv = batch.layer(1);
  EXPECT_EQ(kv.k.dtype, DType::f8e4m3);
  EXPECT_EQ(kv.k.shape, (Shape{7, 4, 1, 2}));
  for (const TensorView& scales : {kv.k_scales, kv.v_scales}) {
    EXPECT_EQ(scales.dtype, DType::f32);
    EXPECT_EQ(scales.shape, (Shape{7, 4, 1}));
    EXPECT_THAT(std::span(scales.f32(), 28), testing::Each(0.0F));
  }
  const BlockPool::KvView page = cache.pool().get_kv_block_view(1, 3);
  EXPECT_EQ(page.k_scales.data, kv.k_scales[3].data);
  EXPECT_EQ(page.v_scales.data, kv.v_scales[3].data);
}

}  // namespace
}  // namespace tutti
