#include "cache/block_pool.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/cache/host_ops.hpp"
#include "tests/cache/throws.hpp"

namespace tutti {
namespace {

using testing::ElementsAre;

CacheConfig small_config() {
  return {.num_layers = 2,
          .n_kv_head = 3,
          .head_dim = 8,
          .hidden_dim = 24,
          .chunk_size = 4,
          .num_left_chunks = 1,
          .max_num_blocks = 6,
          .max_streams = 2};
}

class BlockPoolTest : public testing::Test {
 protected:
  std::vector<int32_t> allocate(size_t count) {
    std::vector<int32_t> blocks(count);
    pool_.allocate(blocks);
    return blocks;
  }
  void free(std::vector<int32_t> blocks) { pool_.free(blocks); }

  HostOps ops_;
  BlockPool pool_{small_config(), ops_};
};

TEST_F(BlockPoolTest, HandsOutEveryBlockOnce) {
  std::vector<int32_t> blocks = allocate(6);
  EXPECT_EQ(pool_.num_free(), 0);
  std::ranges::sort(blocks);
  EXPECT_THAT(blocks, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(BlockPoolTest, HandsOutTheBlocksFreedLastFirstAndInTheSameOrder) {
  allocate(6);
  free({4});
  free({2, 0, 5});
  EXPECT_EQ(pool_.num_free(), 4);
  EXPECT_THAT(allocate(4), ElementsAre(2, 0, 5, 4));
}

TEST_F(BlockPoolTest, StatesRequestedAndFreeAndChangesNothingWhenExhausted) {
  allocate(4);
  std::array<int32_t, 3> blocks{-7, -7, -7};
  expect_throws<PoolExhausted>([&] { pool_.allocate(blocks); }, "requested 3", "2 of 6");
  EXPECT_THAT(blocks, ElementsAre(-7, -7, -7));
  EXPECT_EQ(pool_.num_free(), 2);
}

TEST_F(BlockPoolTest, RefusesToFreeAFreeBlock) {
  const int32_t block = allocate(1)[0];
  free({block});
  expect_throws<std::invalid_argument>([&] { free({block}); }, "block 0", "already free");
}

TEST_F(BlockPoolTest, RefusesToFreeABlockItDoesNotHave) {
  expect_throws<std::invalid_argument>([&] { free({6}); }, "block 6", "[0, 6)");
  expect_throws<std::invalid_argument>([&] { free({-1}); }, "block -1", "[0, 6)");
}

TEST_F(BlockPoolTest, TakesBackNoneOfTheBlocksWhenOneIsRefused) {
  allocate(6);
  EXPECT_THROW(free({1, 2, 1}), std::invalid_argument);
  EXPECT_THROW(free({1, 2, 9}), std::invalid_argument);
  EXPECT_EQ(pool_.num_free(), 0);
  free({1, 2});
  EXPECT_EQ(pool_.num_free(), 2);
}

TEST_F(BlockPoolTest, ViewsHaveTheShapesOfOneLayerAndOneBlock) {
  const auto layer = pool_.get_kv_view(1);
  EXPECT_EQ(layer.k.shape, (Shape{6, 4, 3, 8}));
  EXPECT_EQ(layer.v.shape, layer.k.shape);
  const auto block = pool_.get_kv_block_view(1, 5);
  EXPECT_EQ(block.k.shape, (Shape{4, 3, 8}));
  EXPECT_EQ(block.k.data, layer.k[5].data);
  EXPECT_EQ(block.v.data, layer.v[5].data);
}

TEST_F(BlockPoolTest, ViewsDoNotOverlap) {
  float value = 0;
  for (int layer = 0; layer < 2; ++layer) {
    for (int32_t block = 0; block < 6; ++block) {
      const auto view = pool_.get_kv_block_view(layer, block);
      for (const TensorView& half : {view.k, view.v}) {
        std::fill_n(half.f32(), half.shape.elements(), ++value);
      }
    }
  }
  value = 0;
  for (int layer = 0; layer < 2; ++layer) {
    for (int32_t block = 0; block < 6; ++block) {
      const auto view = pool_.get_kv_block_view(layer, block);
      for (const TensorView& half : {view.k, view.v}) {
        ++value;
        EXPECT_EQ(half.f32()[0], value);
        EXPECT_EQ(half.f32()[half.shape.elements() - 1], value);
      }
    }
  }
}

TEST_F(BlockPoolTest, RefusesViewsOfLayersAndBlocksItDoesNotHave) {
  expect_throws<std::out_of_range>([&] { (void)pool_.get_kv_view(2); }, "layer 2", "[0, 2)");
  expect_throws<std::out_of_range>([&] { (void)pool_.get_kv_block_view(0, 6); }, "block 6", "[0, 6)");
}

TEST_F(BlockPoolTest, ZeroesTheBlocksAskedForInEveryLayerAndNoOther) {
  for (int layer = 0; layer < 2; ++layer) {
    const auto view = pool_.get_kv_view(layer);
    std::fill_n(view.k.f32(), view.k.shape.elements(), NAN);
    std::fill_n(view.v.f32(), view.v.shape.elements(), NAN);
  }
  pool_.zero(std::array{4, 1});
  for (int layer = 0; layer < 2; ++layer) {
    for (int32_t block = 0; block < 6; ++block) {
      const auto view = pool_.get_kv_block_view(layer, block);
      for (const TensorView& half : {view.k, view.v}) {
        const std::span values(half.f32(), static_cast<size_t>(half.shape.elements()));
        const bool zeroed = block == 4 || block == 1;
        EXPECT_TRUE(std::ranges::all_of(values, [&](float x) { return zeroed ? x == 0 : std::isnan(x); }));
      }
    }
  }
}

TEST(BlockPool, ScratchBlocksLiePastTheOthersAndAreNeverHandedOut) {
  HostOps ops;
  BlockPool pool(small_config(), ops, DType::f32, 2);
  EXPECT_EQ(pool.num_blocks(), 6);
  EXPECT_EQ(pool.num_free(), 6);
  EXPECT_EQ(pool.scratch_block(0), 6);
  EXPECT_EQ(pool.scratch_block(1), 7);
  EXPECT_EQ(pool.get_kv_view(1).k.shape, (Shape{8, 4, 3, 8}));
  EXPECT_EQ(pool.get_kv_block_view(1, 7).k.data, pool.get_kv_view(1).k[7].data);
  std::vector<int32_t> blocks(6);
  pool.allocate(blocks);
  EXPECT_THAT(blocks, testing::Each(testing::Lt(6)));
  expect_throws<PoolExhausted>([&] { pool.allocate(std::span(blocks).first(1)); }, "0 of 6");
  EXPECT_THROW((void)pool.scratch_block(2), std::out_of_range);
}

TEST(BlockPool, RefusesToFreeAScratchBlock) {
  HostOps ops;
  BlockPool pool(small_config(), ops, DType::f32, 1);
  expect_throws<std::invalid_argument>([&] { pool.free(std::array{6}); }, "block 6", "[0, 6)");
  EXPECT_EQ(pool.num_free(), 6);
}

TEST(BlockPool, RefusesANegativeNumberOfScratchBlocks) {
  HostOps ops;
  expect_throws<std::invalid_argument>([&] { BlockPool(small_config(), ops, DType::f32, -1); },
                                       "scratch_blocks = -1");
}

TEST(BlockPool, RefusesAConfigThatDoesNotValidate) {
  HostOps ops;
  CacheConfig config = small_config();
  config.max_num_blocks = 1;
  EXPECT_THROW(BlockPool(config, ops), std::invalid_argument);
}

TEST(BlockPool, RefusesADTypeThatKeysAndValuesAreNotStoredIn) {
  HostOps ops;
  EXPECT_THROW(BlockPool(small_config(), ops, DType::i8), std::invalid_argument);
}

TEST(BlockPool, TakesTheBytesThatTheFormulaSays) {
  HostOps ops;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f8e4m3}) {
    const BlockPool pool(small_config(), ops, dtype);
    size_t bytes = 0;
    for (int layer = 0; layer < 2; ++layer) {
      const BlockPool::KvView kv = pool.get_kv_view(layer);
      bytes += kv.k.bytes() + kv.v.bytes();
      if (dtype == DType::f8e4m3) bytes += kv.k_scales.bytes() + kv.v_scales.bytes();
    }
    EXPECT_EQ(static_cast<int64_t>(bytes), pool.num_blocks() * bytes_per_kv_block(pool.config(), dtype));
    const auto first = pool.get_kv_view(0);
    const auto second = pool.get_kv_view(1);
    EXPECT_EQ(static_cast<size_t>(second.k.data - first.k.data), first.k.bytes()) << "layers are contiguous";
    EXPECT_EQ(static_cast<size_t>(second.v.data - first.v.data), first.v.bytes());
  }
}

TEST(BlockPool, ADefaultBlockTakes192KiBIn2Bytes) {
  HostOps ops;
  const CacheConfig defaults;
  const BlockPool pool(CacheConfig{.max_num_blocks = 32, .max_streams = 1}, ops, DType::bf16);
  const auto layer = pool.get_kv_view(0);
  EXPECT_EQ(static_cast<int64_t>(layer.k.bytes() + layer.v.bytes()) * defaults.num_layers / 32, 192 << 10);
  EXPECT_EQ(bytes_per_kv_block(defaults, DType::bf16), int64_t{192} << 10);
  EXPECT_EQ(2048 * bytes_per_kv_block(defaults, DType::bf16), int64_t{384} << 20);
  EXPECT_EQ(bytes_per_kv_block(defaults, DType::f32), int64_t{384} << 10);
}

TEST(BlockPool, RefusesMoreFramesThanKernelsHaveNumbersFor) {
  HostOps ops;
  CacheConfig config = small_config();
  config.max_num_blocks = std::numeric_limits<int32_t>::max() / config.chunk_size + 1;
  expect_throws<std::invalid_argument>([&] { BlockPool(config, ops); }, "2147483648 frames",
                                       "at most 2147483647");
}

TEST(BlockPool, WritesToOtherBlocksWhatItGathered) {
  HostOps ops;
  BlockPool from(small_config(), ops);
  const std::array<int32_t, 2> blocks{4, 1};
  std::vector<float> values(static_cast<size_t>(from.block_floats(2)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  from.write(blocks, values);
  const Tensor gathered = ops.allocate(DType::f32, {from.block_floats(2)});
  from.gather(blocks, gathered);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), gathered.view().f32()));
  EXPECT_EQ(from.get_kv_block_view(0, 4).k.f32()[0], 0.0F);
  EXPECT_EQ(from.get_kv_block_view(0, 1).k.f32()[0], static_cast<float>(values.size() / 8));
  EXPECT_EQ(from.get_kv_block_view(1, 4).v.f32()[0], static_cast<float>(values.size() / 4 * 3));
  EXPECT_EQ(from.get_kv_block_view(0, 0).k.f32()[0], 0.0F);
  EXPECT_THROW(from.write(blocks, std::span(values).first(3)), std::invalid_argument);
}

}  // namespace
}  // namespace tutti
