// Where keys and values lie makes no difference to the real attention kernel: paged or in one piece, alone or
// beside lanes that only pad.

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "cache/attention_cache.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "tests/gpu/random_tensor.hpp"

namespace tutti {
namespace {

constexpr int layers = 2;
constexpr int heads = 2;
constexpr int head_dim = 8;
constexpr int width = heads * head_dim;
constexpr int max_positions = 400;

CacheConfig geometry(int chunk, int block, int left) {
  return {.num_layers = layers,
          .n_kv_head = heads,
          .head_dim = head_dim,
          .hidden_dim = width,
          .chunk_size = chunk,
          .num_left_chunks = left,
          .block_size_frames = block,
          .max_blocks_per_seq = 64,
          .max_streams = 4};
}

/// The attention of one layer with arbitrary weights.
class Kernel {
 public:
  explicit Kernel(Random& random)
      : u_(random.tensor({width})),
        v_(random.tensor({width})),
        positions_(random.tensor({max_positions, width})) {
    ops_->reserve(8, 8 * 16, 0);
  }
  [[nodiscard]] Ops& ops() { return *ops_; }

  /// Runs lanes of `rows` new frames, packed in `qkv` (rows, 3 * width).
  std::vector<float> run(const std::vector<int>& rows, const PagedKv& kv, const TensorView& qkv) {
    std::vector<int32_t> row_begin{0};
    std::vector<int32_t> first_position;
    for (size_t lane = 0; lane < rows.size(); ++lane) {
      row_begin.push_back(row_begin.back() + rows[lane]);
      first_position.push_back(kv.cache_seqlens[lane] + 3);
    }
    const Tensor out = host_tensor(DType::f32, {row_begin.back(), width});
    ops_->paged_attention({row_begin}, kv,
                          {.qkv = qkv,
                           .pos_bias_u = u_,
                           .pos_bias_v = v_,
                           .positions = positions_,
                           .first_position = first_position},
                          out);
    const std::span<float> values = Random::values(out);
    return {values.begin(), values.end()};
  }

  /// The same over a history in one piece, (heads, T, 2 * head_dim) as one layer of a dense cache, and an
  /// identity block table.
  std::vector<float> run_contiguous(int rows, const TensorView& history, const TensorView& qkv) {
    const int64_t cached = history.shape[1];
    const Shape shape{1, cached + rows, heads, head_dim};
    const Tensor k = host_tensor(DType::f32, shape);
    const Tensor v = host_tensor(DType::f32, shape);
    for (int h = 0; h < heads; ++h) {
      for (int64_t t = 0; t < cached; ++t) {
        const float* const both = history[h][t].f32();
        std::copy_n(both, head_dim, k.view()[0][t][h].f32());
        std::copy_n(both + head_dim, head_dim, v.view()[0][t][h].f32());
      }
    }
    const std::array<int32_t, 1> table{0};
    const std::array<int32_t, 1> seqlen{static_cast<int32_t>(cached)};
    const std::array<int32_t, 1> begin{0};
    return run({rows}, {k, v, table, 1, seqlen, begin}, qkv);
  }

 private:
  std::unique_ptr<Ops> ops_ = make_cpu_ops();
  Tensor u_, v_, positions_;
};

/// K and V of new frames as a dense commit takes them, from each layer's (rows, 3 * width).
Tensor pack(const std::vector<Tensor>& qkv, int64_t first_row, int64_t rows) {
  Tensor packed = host_tensor(DType::f32, {layers, heads, rows, 2 * head_dim});
  for (int l = 0; l < layers; ++l) {
    for (int h = 0; h < heads; ++h) {
      for (int64_t t = 0; t < rows; ++t) {
        const float* const fresh = qkv[static_cast<size_t>(l)].view()[first_row + t].f32();
        float* const both = packed.view()[l][h][t].f32();
        std::copy_n(fresh + width + h * head_dim, head_dim, both);
        std::copy_n(fresh + 2 * width + h * head_dim, head_dim, both + head_dim);
      }
    }
  }
  return packed;
}

class AttentionStorage : public testing::TestWithParam<std::array<int, 3>> {};

TEST_P(AttentionStorage, PagedEqualsOnePieceAndDenseToTheBitForRandomHistories) {
  Random random(std::random_device{}());
  SCOPED_TRACE(random.trace());
  const auto [chunk, block, left] = GetParam();
  Kernel kernel(random);
  CacheConfig config = geometry(chunk, block, left);
  config.recycle_at_capacity = left < 0;
  if (left < 0) config.max_num_blocks = config.max_streams * 5;
  BlockPool paged_pool(config, kernel.ops());
  BlockPool dense_pool(config, kernel.ops());
  AttentionCacheManager paged(paged_pool, config);
  AttentionCacheManager dense(dense_pool, config);
  PagedKvCache batch(paged_pool, config.max_streams, paged.table_width());
  for (StreamId id = 0; id < config.max_streams; ++id) {
    paged.allocate_stream(id);
    dense.allocate_stream(id);
  }
  for (int tick = 0; tick < 60; ++tick) {
    std::vector<StreamId> ids;
    std::vector<int> rows;
    std::vector<int> row_begin{0};
    for (const int32_t id : random.permutation(random.between(1, config.max_streams))) {
      ids.push_back(id);
      rows.push_back(random.between(1, std::min(chunk, block)));
      row_begin.push_back(row_begin.back() + rows.back());
    }
    std::vector<Tensor> qkv;
    for (int l = 0; l < layers; ++l) qkv.push_back(random.tensor({row_begin.back(), 3 * width}));
    paged.prepare_chunks_batched(ids, rows);
    paged.fill_batch(ids, batch);
    for (int l = 0; l < layers; ++l) {
      const TensorView layer_qkv = qkv[static_cast<size_t>(l)];
      const std::vector<float> out = kernel.run(rows, batch.layer(l), layer_qkv);
      for (size_t lane = 0; lane < ids.size(); ++lane) {
        const Tensor history = dense.get_stacked_cache(ids[lane]);
        EXPECT_EQ(history.shape()[2], paged.cached_frames(ids[lane]));
        const auto alone = kernel.run_contiguous(rows[lane], history.view()[l],
                                                 layer_qkv.slice(row_begin[lane], rows[lane]));
        const auto in_batch =
            std::span(out).subspan(static_cast<size_t>(row_begin[lane] * width), alone.size());
        EXPECT_TRUE(same_bits(in_batch, alone)) << "stream " << ids[lane] << " in tick " << tick;
      }
    }
    for (size_t lane = 0; lane < ids.size(); ++lane) {
      paged.commit_chunk_paged(ids[lane], rows[lane]);
      dense.commit(ids[lane], pack(qkv, row_begin[lane], rows[lane]));
      EXPECT_TRUE(same_bits(Random::values(paged.get_stacked_cache(ids[lane])),
                            Random::values(dense.get_stacked_cache(ids[lane]))));
    }
    if (random.between(0, 9) == 0) {
      const StreamId reset = random.between(0, config.max_streams - 1);
      paged.reset_stream(reset);
      dense.reset_stream(reset);
    }
    ASSERT_FALSE(HasFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(Geometries, AttentionStorage,
                         testing::Values(std::array{8, 8, 2}, std::array{4, 16, 3}, std::array{8, 16, 1},
                                         std::array{8, 8, 0}, std::array{6, 5, 4}, std::array{8, 8, -1}),
                         [](const auto& given) {
                           return "Chunk" + std::to_string(given.param[0]) + "Block" +
                                  std::to_string(given.param[1]) + "Left" +
                                  (given.param[2] < 0 ? "Unlimited" : std::to_string(given.param[2]));
                         });

// A NaN that no arithmetic makes: reading foreign memory shows in the output, writing it in the pool.
const auto canary = std::bit_cast<float>(0x7fc0dead);

/// Streams 0 and 1 with some history, and 3 lanes of padding behind them.
class PadLanes : public testing::TestWithParam<bool> {
 protected:
  static constexpr int padding_ = 3;

  void poison() {
    for (int l = 0; l < layers; ++l) {
      for (int32_t block = 0; block < pool_.num_blocks(); ++block) {
        const BlockPool::KvView kv = pool_.get_kv_block_view(l, block);
        std::ranges::fill(Random::values(kv.k), canary);
        std::ranges::fill(Random::values(kv.v), canary);
      }
    }
  }
  /// Every value of the pool but the scratch block's.
  [[nodiscard]] std::vector<float> pool_values() const {
    std::vector<float> all;
    for (int l = 0; l < layers; ++l) {
      const BlockPool::KvView kv = pool_.get_kv_view(l);
      for (const TensorView& half : {kv.k, kv.v}) {
        const auto values = Random::values(half.slice(0, pool_.num_blocks()));
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  }
  std::vector<float> tick(const std::vector<int>& rows, int padding, const TensorView& qkv) {
    const std::array<StreamId, 2> ids{0, 1};
    attention_.prepare_chunks_batched(ids, std::span(rows).first(2));
    attention_.fill_batch(ids, batch_, padding);
    EXPECT_EQ(batch_.lanes(), 2 + padding);
    std::vector<float> out;
    for (int l = 0; l < layers; ++l) out = kernel_.run(rows, batch_.layer(l), qkv);
    return out;
  }

  static CacheConfig config() {
    CacheConfig config = geometry(8, 4, 2);
    config.prefill_kv_window = GetParam();
    return config;
  }

  Random random_{std::random_device{}()};
  Kernel kernel_{random_};
  BlockPool pool_{config(), kernel_.ops(), DType::f32, 1};
  AttentionCacheManager attention_{pool_, config(), 1};
  PagedKvCache batch_{pool_, 2 + padding_, attention_.table_width()};
};

TEST_P(PadLanes, NeitherReadNorWriteWhatALiveStreamHolds) {
  SCOPED_TRACE(random_.trace());
  poison();
  for (const StreamId id : {0, 1, 2}) attention_.allocate_stream(id);
  const Tensor history = random_.tensor({11, 3 * width});
  (void)tick({4, 7}, 0, history);
  attention_.commit_chunk_paged(0, 4);
  attention_.commit_chunk_paged(1, 7);
  // A padded row may hold anything at all that is finite.
  const std::vector<int> rows{8, 5, 8, 8, 8};
  const Tensor qkv = random_.tensor({37, 3 * width});
  const std::vector<float> alone = tick({8, 5}, 0, qkv.view().slice(0, 13));
  const std::vector<float> expected_pool = pool_values();
  const std::vector<float> padded = tick(rows, padding_, qkv);
  EXPECT_TRUE(same_bits(std::span(padded).first(alone.size()), alone));
  EXPECT_TRUE(same_bits(pool_values(), expected_pool));
  EXPECT_TRUE(std::ranges::all_of(padded, [](float x) { return std::isfinite(x); }));
  const auto scratch = Random::values(pool_.get_kv_block_view(0, pool_.scratch_block(0)).k);
  EXPECT_TRUE(std::ranges::any_of(scratch, [](float x) { return x != 0; }))
      << "padding was written somewhere";
}

TEST_P(PadLanes, HaveTheLengthThatEveryStreamStartsWithAndPointOnlyAtScratch) {
  attention_.allocate_stream(0);
  attention_.allocate_stream(1);
  const int at_start = attention_.cached_frames(0);
  EXPECT_EQ(at_start, GetParam() ? 16 : 0);
  (void)tick({8, 8, 1, 1, 1}, padding_, random_.tensor({19, 3 * width}));
  const PagedKv kv = batch_.layer(0);
  const auto padding = kv.block_table.subspan(2 * static_cast<size_t>(kv.table_width));
  EXPECT_THAT(padding, testing::Each(pool_.scratch_block(0)));
  EXPECT_THAT(kv.cache_seqlens.subspan(2), testing::Each(at_start));
  EXPECT_THAT(kv.cache_begin.subspan(2), testing::Each(0));
  // A lane that padded serves a stream next: nothing of the padding stays in its row.
  attention_.allocate_stream(2);
  attention_.prepare_chunk(2, 1);
  attention_.fill_batch(std::array<StreamId, 3>{0, 1, 2}, batch_);
  const size_t row_end = 3 * static_cast<size_t>(kv.table_width);
  EXPECT_THAT(batch_.layer(0).block_table.first(row_end),
              testing::Not(testing::Contains(pool_.scratch_block(0))));
}

TEST_P(PadLanes, BelongToNoStream) {
  for (StreamId id = 0; id < 4; ++id) attention_.allocate_stream(id);
  EXPECT_FALSE(attention_.can_admit());
  EXPECT_THROW(attention_.allocate_stream(4), PoolExhausted);
  EXPECT_EQ(attention_.reserved_blocks(), pool_.num_blocks());
}

TEST_P(PadLanes, AreRefusedWhereThereAreNone) {
  attention_.allocate_stream(0);
  attention_.prepare_chunk(0, 1);
  const std::array<StreamId, 1> ids{0};
  EXPECT_THROW(attention_.fill_batch(ids, batch_, -1), std::invalid_argument);
  EXPECT_THROW(attention_.fill_batch(ids, batch_, 5), std::invalid_argument)
      << "more lanes than the batch has";
  BlockPool plain(config(), kernel_.ops());
  AttentionCacheManager without(plain, config());
  without.allocate_stream(0);
  without.prepare_chunk(0, 1);
  EXPECT_THROW(without.fill_batch(ids, batch_, 1), std::invalid_argument);
  EXPECT_THROW(AttentionCacheManager(plain, config(), 1), std::invalid_argument) << "no scratch block";
  EXPECT_THROW(AttentionCacheManager(pool_, config(), -1), std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Histories, PadLanes, testing::Bool(),
                         [](const auto& given) { return std::string(given.param ? "Prefilled" : "Empty"); });

}  // namespace
}  // namespace tutti
