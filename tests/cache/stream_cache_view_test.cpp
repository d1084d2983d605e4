#include "cache/stream_cache_view.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "tests/cache/fake_decoder.hpp"
#include "tests/cache/host_ops.hpp"
#include "tests/cache/throws.hpp"

namespace tutti {
namespace {

/// Three streams fit the attention and convolution caches, two the decoder's.
class StreamCacheViewTest : public testing::Test {
 protected:
  [[nodiscard]] StreamCacheView view(StreamId id, int slot) { return {id, slot, attention_, cnn_, ctc_}; }
  void expect_open_streams(int count) {
    EXPECT_EQ(attention_.num_streams(), count);
    EXPECT_EQ(ctc_.pooled_states(), 2 - count);
  }
  [[nodiscard]] bool slot_is_allocated(int slot) {
    try {
      cnn_.reset_stream(slot);
      return true;
    } catch (const UnknownStream&) {
      return false;
    }
  }

  static constexpr CacheConfig config_{.num_layers = 1,
                                       .n_kv_head = 1,
                                       .head_dim = 2,
                                       .hidden_dim = 2,
                                       .kernel_size = 3,
                                       .chunk_size = 4,
                                       .num_left_chunks = 1,
                                       .max_streams = 3};
  HostOps ops_;
  FakeDecoder::Counts counts_;
  BlockPool pool_{config_, ops_};
  AttentionCacheManager attention_{pool_, config_};
  CnnCacheManager cnn_{config_, ops_};
  CtcStateCacheManager ctc_{std::make_unique<FakeDecoder>(counts_), 2};
};

TEST_F(StreamCacheViewTest, AllocatesAndFreesInAllThreeCaches) {
  StreamCacheView stream = view(7, 2);
  stream.allocate();
  expect_open_streams(1);
  EXPECT_TRUE(slot_is_allocated(2));
  stream.free();
  expect_open_streams(0);
  EXPECT_FALSE(slot_is_allocated(2));
}

TEST_F(StreamCacheViewTest, ReachesItsStreamsCaches) {
  StreamCacheView stream = view(7, 2);
  stream.allocate();
  stream.prepare_chunk(4);
  stream.commit_chunk_paged(3);
  stream.get_decoder().decode_chunk(OneFrame{5}.frames());
  EXPECT_EQ(attention_.cached_frames(7), 3);
  EXPECT_EQ(ctc_.get_decoder(7).frames(), 1);
  EXPECT_FALSE(stream.at_capacity());
  EXPECT_EQ(stream.id(), 7);
  EXPECT_EQ(stream.slot(), 2);
}

TEST_F(StreamCacheViewTest, ReachesTheDenseFormOfItsAttentionCache) {
  StreamCacheView stream = view(7, 2);
  stream.allocate();
  const Tensor chunk = host_tensor(Shape{1, 1, 2, 4}, std::array<float, 8>{1, 2, 3, 4, 5, 6, 7, 8});
  stream.commit_chunk(chunk);
  EXPECT_EQ(stream.cached_frames(), 2);
  const Tensor cached = stream.get_att_cache();
  EXPECT_EQ(cached.shape(), chunk.shape());
  EXPECT_TRUE(std::ranges::equal(std::span(cached.view().f32(), 8), std::span(chunk.view().f32(), 8)));
  stream.prepare_chunk(4);
  EXPECT_THAT(stream.get_paged_state_views().cache_seqlens, testing::ElementsAre(2));
  EXPECT_EQ(stream.get_paged_state_views().block_table.data(),
            attention_.get_paged_state_views(7).block_table.data());
}

TEST_F(StreamCacheViewTest, ResetEmptiesAllThreeCachesAndKeepsTheStream) {
  StreamCacheView stream = view(7, 2);
  stream.allocate();
  stream.prepare_chunk(4);
  stream.commit_chunk_paged(4);
  const Tensor context = host_tensor({1, 1, 2, 2}, std::vector<float>(4, 1.0F));
  cnn_.update(2, context);
  stream.get_decoder().decode_chunk(OneFrame{5}.frames());
  stream.reset();
  EXPECT_EQ(attention_.cached_frames(7), 0);
  EXPECT_EQ(pool_.num_free(), pool_.num_blocks());
  cnn_.read(2, context);
  EXPECT_THAT(std::span(context.view().f32(), 4), testing::Each(0.0F));
  EXPECT_EQ(stream.get_decoder().frames(), 0);
  expect_open_streams(1);
}

TEST_F(StreamCacheViewTest, AllocatesNowhereWhenTheAttentionCacheRefuses) {
  attention_.allocate_stream(7);
  EXPECT_THROW(view(7, 2).allocate(), std::invalid_argument);
  EXPECT_EQ(attention_.num_streams(), 1);
  EXPECT_EQ(ctc_.pooled_states(), 2);
  EXPECT_FALSE(slot_is_allocated(2));
}

TEST_F(StreamCacheViewTest, AllocatesNowhereWhenTheConvolutionCacheRefuses) {
  cnn_.allocate_stream(2);
  EXPECT_THROW(view(7, 2).allocate(), std::invalid_argument);
  expect_open_streams(0);
  EXPECT_TRUE(slot_is_allocated(2)) << "the slot still belongs to whoever had it";
}

TEST_F(StreamCacheViewTest, AllocatesNowhereWhenTheDecoderStatesAreExhausted) {
  view(1, 0).allocate();
  view(2, 1).allocate();
  EXPECT_THROW(view(7, 2).allocate(), PoolExhausted);
  expect_open_streams(2);
  EXPECT_FALSE(slot_is_allocated(2));
}

TEST_F(StreamCacheViewTest, DoesNotKnowAStreamThatWasNotAllocated) {
  StreamCacheView stream = view(7, 2);
  EXPECT_THROW(stream.free(), UnknownStream);
  EXPECT_THROW(stream.reset(), UnknownStream);
  EXPECT_THROW(stream.prepare_chunk(1), UnknownStream);
  EXPECT_THROW(stream.commit_chunk_paged(1), UnknownStream);
  EXPECT_THROW((void)stream.get_decoder(), UnknownStream);
  EXPECT_THROW((void)stream.at_capacity(), UnknownStream);
}

}  // namespace
}  // namespace tutti
