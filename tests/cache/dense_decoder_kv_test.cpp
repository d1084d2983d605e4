#include "cache/dense_decoder_kv.hpp"

#include <gmock/gmock.h>

#include <array>
#include <vector>

#include "tests/cache/decoder_kv_tokens.hpp"
#include "tests/cache/host_ops.hpp"
#include "tests/cache/throws.hpp"

namespace tutti {
namespace {

using testing::ElementsAre;

constexpr int num_layers = 2;

DecoderKvConfig config_of(DType format, int max_rows = 4, int max_row_tokens = 6) {
  return {.num_layers = num_layers,
          .n_kv_head = 2,
          .head_dim = 3,
          .max_rows = max_rows,
          .max_row_tokens = max_row_tokens,
          .format = format};
}

class DenseDecoderKvTest : public testing::TestWithParam<DType> {
 protected:
  /// Appends these tokens, one a lane.
  static void step(DenseDecoderKv& cache, const std::vector<int>& tokens) {
    const std::vector<int> ones(tokens.size(), 1);
    cache.prepare_step(ones);
    for (size_t lane = 0; lane < tokens.size(); ++lane) {
      const int at = cache.cached_tokens(static_cast<int>(lane));
      write_token(cache, num_layers, static_cast<int>(lane), at, tokens[lane]);
    }
    cache.commit_step(ones);
  }
  static void expect(const DenseDecoderKv& cache, const std::vector<std::vector<int>>& lanes) {
    ASSERT_EQ(cache.lanes(), std::ssize(lanes));
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      expect_tokens(cache, num_layers, static_cast<int>(lane), lanes[lane]);
    }
  }

  HostOps ops_;
  DenseDecoderKv cache_{config_of(GetParam()), ops_};
};

INSTANTIATE_TEST_SUITE_P(Formats, DenseDecoderKvTest, testing::Values(DType::f32, DType::bf16, DType::f8e4m3),
                         [](const auto& param) { return std::string(decoder_kv_format_name(param.param)); });

TEST_P(DenseDecoderKvTest, SelectRepeatsDropsAndReordersRowsWithTheirScales) {
  cache_.reset(3);
  step(cache_, {1, 2, 3});
  cache_.select(std::array<int32_t, 4>{2, 0, 2, 2});
  expect(cache_, {{3}, {1}, {3}, {3}});
  step(cache_, {4, 5, 6, 7});
  expect(cache_, {{3, 4}, {1, 5}, {3, 6}, {3, 7}});
  cache_.select(std::array<int32_t, 2>{3, 1});
  expect(cache_, {{3, 7}, {1, 5}});
  cache_.select({});
  EXPECT_EQ(cache_.lanes(), 0);
}

TEST_P(DenseDecoderKvTest, MergeAppendsCopiesOfAnotherGroupWithTheirScales) {
  DenseDecoderKv other(config_of(GetParam(), 2, 9), ops_);
  other.reset(2);
  step(other, {11, 12});
  other.select(std::array<int32_t, 2>{1, 0});
  cache_.reset(1);
  step(cache_, {1});
  step(cache_, {2});
  cache_.merge(other);
  expect(cache_, {{1, 2}, {12}, {11}});
  step(other, {13, 14});
  expect(cache_, {{1, 2}, {12}, {11}});
}

TEST_P(DenseDecoderKvTest, ResetStartsOverWithEmptyRows) {
  cache_.reset(2);
  step(cache_, {1, 2});
  cache_.reset(3);
  expect(cache_, {{}, {}, {}});
}

TEST_P(DenseDecoderKvTest, IsOnePageARow) {
  cache_.reset(3);
  const DecoderKv kv = cache_.layer(1);
  EXPECT_EQ(kv.k.dtype, GetParam());
  EXPECT_EQ(kv.k.shape, (Shape{4, 6, 2, 3}));
  EXPECT_EQ(kv.table_width, 1);
  EXPECT_THAT(kv.block_table, ElementsAre(0, 1, 2));
  EXPECT_EQ(kv.k_scales.data != nullptr, GetParam() == DType::f8e4m3);
  expect_throws<std::out_of_range>([&] { (void)cache_.layer(2); }, "layer 2", "[0, 2)");
}

TEST_P(DenseDecoderKvTest, RefusesToOutgrowItsBuffers) {
  cache_.reset(2);
  cache_.prepare_step(std::array{6, 2});
  cache_.commit_step(std::array{6, 2});
  expect_throws<std::logic_error>(
      [&] {
        cache_.prepare_step(std::array{1, 1});
      },
      "lane 0 holds 6", "at most 6");
  expect_throws<std::invalid_argument>([&] { cache_.reset(5); }, "5 lanes", "0 to 4");
  expect_throws<std::invalid_argument>([&] { cache_.reset(-1); }, "-1 lanes");
}

TEST_P(DenseDecoderKvTest, CountsNoMoreThanWasPrepared) {
  cache_.reset(2);
  expect_throws<std::invalid_argument>([&] { cache_.prepare_step(std::array{1}); }, "1 token counts",
                                       "expected 2");
  expect_throws<std::invalid_argument>([&] { cache_.prepare_step(std::array{1, 0}); }, "lane 1: 0 tokens");
  cache_.prepare_step(std::array{2, 2});
  expect_throws<std::logic_error>(
      [&] {
        cache_.commit_step(std::array{2, 3});
      },
      "lane 1 commits 3", "2 prepared");
  expect_throws<std::invalid_argument>([&] { cache_.commit_step(std::array{2}); }, "expected 2");
  cache_.commit_step(std::array{2, 0});
  EXPECT_THAT(cache_.layer(0).cache_seqlens, ElementsAre(2, 0));
  expect_throws<std::logic_error>([&] { cache_.commit_step(std::array{0, 1}); }, "the 0 prepared");
  expect_throws<std::out_of_range>([&] { (void)cache_.cached_tokens(2); }, "lane 2", "[0, 2)");
}

TEST_P(DenseDecoderKvTest, ChangesNothingWhenItRefusesASelection) {
  cache_.reset(2);
  step(cache_, {1, 2});
  expect_throws<std::invalid_argument>(
      [&] {
        cache_.select(std::array<int32_t, 2>{1, 2});
      },
      "lane 2", "[0, 2)");
  expect_throws<std::invalid_argument>([&] { cache_.select(std::array<int32_t, 1>{-1}); }, "lane -1");
  expect_throws<std::invalid_argument>([&] { cache_.select(std::array<int32_t, 5>{}); }, "5 lanes",
                                       "at most 4");
  expect(cache_, {{1}, {2}});
}

TEST_P(DenseDecoderKvTest, RefusesToMergeWhatDoesNotFit) {
  const DType another = GetParam() == DType::f32 ? DType::bf16 : DType::f32;
  const DenseDecoderKv unlike(config_of(another), ops_);
  expect_throws<std::invalid_argument>([&] { cache_.merge(unlike); }, decoder_kv_format_name(another).data(),
                                       "expected 2 layers of 2 heads of 3 in",
                                       decoder_kv_format_name(GetParam()).data());
  DenseDecoderKv many(config_of(GetParam()), ops_);
  many.reset(3);
  cache_.reset(2);
  expect_throws<std::invalid_argument>([&] { cache_.merge(many); }, "3 lanes", "at most 2 beside 2");
  DenseDecoderKv longer(config_of(GetParam(), 1, 7), ops_);
  longer.reset(1);
  longer.prepare_step(std::array{7});
  longer.commit_step(std::array{7});
  expect_throws<std::invalid_argument>([&] { cache_.merge(longer); }, "7 tokens", "at most 6");
  EXPECT_EQ(cache_.lanes(), 2);
}

}  // namespace
}  // namespace tutti
