#include <gmock/gmock.h>

#include <array>
#include <random>
#include <vector>

#include "cache/attention_cache.hpp"
#include "tests/cache/host_ops.hpp"
#include "tests/cache/throws.hpp"

namespace tutti {
namespace {

constexpr int layers = 2;
constexpr int heads = 3;
constexpr int head_dim = 2;

/// A value that tells where in which frame it belongs: exact in a float.
float value(int frame, int layer, int head, int half, int element) {
  return static_cast<float>((((frame * layers + layer) * heads + head) * 2 + half) * head_dim + element);
}

/// Frames [first, first + frames), packed.
Tensor packed(int first, int frames) {
  Tensor chunk = host_tensor(DType::f32, {layers, heads, frames, 2 * head_dim});
  float* to = chunk.view().f32();
  for (int l = 0; l < layers; ++l) {
    for (int h = 0; h < heads; ++h) {
      for (int t = first; t < first + frames; ++t) {
        for (int half = 0; half < 2; ++half) {
          for (int e = 0; e < head_dim; ++e) *to++ = value(t, l, h, half, e);
        }
      }
    }
  }
  return chunk;
}

std::vector<float> values(const TensorView& t) { return {t.f32(), t.f32() + t.shape.elements()}; }

CacheConfig small(int chunk, int block, int left) {
  return {.num_layers = layers,
          .n_kv_head = heads,
          .head_dim = head_dim,
          .hidden_dim = heads * head_dim,
          .chunk_size = chunk,
          .num_left_chunks = left,
          .block_size_frames = block,
          .max_blocks_per_seq = 64,
          .max_streams = 2};
}

class DenseCache : public testing::Test {
 protected:
  void SetUp() override { attention_.allocate_stream(1); }
  /// Commits the stream's next `frames` frames.
  void commit(int frames) {
    attention_.commit(1, packed(committed_, frames));
    committed_ += frames;
  }

  HostOps ops_;
  BlockPool pool_{small(4, 4, 2), ops_};
  AttentionCacheManager attention_{pool_, pool_.config()};
  int committed_ = 0;
};

TEST_F(DenseCache, OfANewStreamIsEmpty) {
  EXPECT_EQ(attention_.get_stacked_cache(1).shape(), (Shape{layers, heads, 0, 2 * head_dim}));
}

TEST_F(DenseCache, ReturnsWhatWasCommittedLayerByLayerAndHeadByHead) {
  commit(4);
  commit(3);
  const Tensor stacked = attention_.get_stacked_cache(1);
  EXPECT_EQ(stacked.shape(), (Shape{layers, heads, 7, 2 * head_dim}));
  EXPECT_EQ(values(stacked), values(packed(0, 7)));
}

TEST_F(DenseCache, LiesInThePoolAsThePagedFormReadsIt) {
  commit(3);
  attention_.prepare_chunk(1, 1);
  for (int l = 0; l < layers; ++l) {
    const PagedKv kv = attention_.get_paged_cache(1, l);
    EXPECT_EQ(kv.k.data, pool_.get_kv_view(l).k.data);
    EXPECT_EQ(kv.v.data, pool_.get_kv_view(l).v.data);
    EXPECT_THAT(kv.cache_seqlens, testing::ElementsAre(3));
    EXPECT_THAT(kv.cache_begin, testing::ElementsAre(0));
    EXPECT_EQ(kv.table_width, attention_.table_width());
    for (int t = 0; t < 3; ++t) {
      for (int h = 0; h < heads; ++h) {
        for (int e = 0; e < head_dim; ++e) {
          EXPECT_EQ(kv.k[kv.block_table[0]][t][h].f32()[e], value(t, l, h, 0, e));
          EXPECT_EQ(kv.v[kv.block_table[0]][t][h].f32()[e], value(t, l, h, 1, e));
        }
      }
    }
  }
  EXPECT_THROW((void)attention_.get_paged_cache(1, layers), std::out_of_range);
}

TEST_F(DenseCache, LeavesOtherStreamsAlone) {
  attention_.allocate_stream(2);
  commit(4);
  attention_.commit(2, packed(50, 4));
  commit(4);
  EXPECT_EQ(values(attention_.get_stacked_cache(2)), values(packed(50, 4)));
}

TEST_F(DenseCache, RefusesMoreFramesThanAChunk) {
  BlockPool pool(small(4, 8, 2), ops_);
  AttentionCacheManager attention(pool, pool.config());
  attention.allocate_stream(1);
  expect_throws<std::invalid_argument>([&] { attention.commit(1, packed(0, 5)); }, "5 frames",
                                       "1 to 4, the chunk size");
  expect_throws<std::invalid_argument>([&] { attention.commit(1, packed(0, 0)); }, "0 frames");
}

TEST(DenseCacheEviction, IsThatOfThePagedForm) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (const auto& [chunk, block, left] :
       {std::array{4, 4, 2}, {3, 8, 1}, {4, 8, 0}, {4, 4, 0}, {2, 5, 3}, {4, 16, -1}}) {
    HostOps ops;
    BlockPool pool(small(chunk, block, left), ops);
    AttentionCacheManager attention(pool, pool.config());
    attention.allocate_stream(1);
    attention.allocate_stream(2);
    int committed = 0;
    for (int i = 0; i < 40; ++i) {
      const int frames = std::uniform_int_distribution(1, chunk)(random);
      attention.commit(1, packed(committed, frames));
      attention.prepare_chunk(2, frames);
      attention.commit_chunk_paged(2, frames);
      committed += frames;
      const int cached = left < 0 ? committed : std::min(committed, chunk * left);
      EXPECT_EQ(values(attention.get_stacked_cache(1)), values(packed(committed - cached, cached)));
      EXPECT_EQ(attention.cached_frames(1), attention.cached_frames(2));
      EXPECT_EQ(attention.cache_begin(1), attention.cache_begin(2));
      EXPECT_EQ(attention.block_table(1).size(), attention.block_table(2).size());
    }
  }
}

}  // namespace
}  // namespace tutti
