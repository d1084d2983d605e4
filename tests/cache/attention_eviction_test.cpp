#include <gmock/gmock.h>

#include <vector>

#include "cache/attention_cache.hpp"
#include "tests/cache/host_ops.hpp"

namespace tutti {
namespace {

/// What a reader sees of one stream after a commit.
struct Seen {
  int cached;
  int begin;
  int blocks;
  bool operator==(const Seen&) const = default;
};
void PrintTo(const Seen& seen, std::ostream* out) {
  *out << "{cached " << seen.cached << ", begin " << seen.begin << ", blocks " << seen.blocks << "}";
}

/// One stream of a given geometry.
class Stream {
 public:
  Stream(int chunk, int block, int left)
      : config_{.num_layers = 1,
                .n_kv_head = 1,
                .head_dim = 1,
                .hidden_dim = 1,
                .chunk_size = chunk,
                .num_left_chunks = left,
                .block_size_frames = block,
                .max_streams = 1},
        pool_(config_, ops_),
        attention_(pool_, config_) {
    attention_.allocate_stream(0);
  }

  Seen run_chunk(int frames) {
    attention_.prepare_chunk(0, frames);
    attention_.commit_chunk_paged(0, frames);
    const auto blocks = static_cast<int>(attention_.block_table(0).size());
    EXPECT_EQ(pool_.num_free(), pool_.num_blocks() - blocks);
    return {attention_.cached_frames(0), attention_.cache_begin(0), blocks};
  }
  /// After running them one by one.
  std::vector<Seen> run_chunks(std::initializer_list<int> frames) {
    std::vector<Seen> seen;
    for (const int f : frames) seen.push_back(run_chunk(f));
    return seen;
  }
  [[nodiscard]] std::vector<int32_t> table() const {
    return {attention_.block_table(0).begin(), attention_.block_table(0).end()};
  }
  AttentionCacheManager& attention() { return attention_; }

 private:
  HostOps ops_;
  CacheConfig config_;
  BlockPool pool_;
  AttentionCacheManager attention_;
};

using SeenList = std::vector<Seen>;

TEST(Eviction, WithOneBlockAChunkHistoryIsTheLastLeftChunks) {
  Stream stream(16, 16, 2);
  EXPECT_EQ(stream.run_chunks({16, 16, 16, 16}), (SeenList{{16, 0, 1}, {32, 0, 2}, {32, 0, 2}, {32, 0, 2}}));
  EXPECT_EQ(stream.attention().committed_frames(0), 64);
}

TEST(Eviction, ShiftsTheTableLeftAndMovesNoBlock) {
  Stream stream(16, 16, 3);
  (void)stream.run_chunks({16, 16, 16});
  const auto before = stream.table();
  stream.attention().prepare_chunk(0, 16);
  const int32_t added = stream.table().back();
  stream.attention().commit_chunk_paged(0, 16);
  EXPECT_EQ(stream.table(), (std::vector{before[1], before[2], added}));
}

TEST(Eviction, AShortCommitInMidStreamLeavesTheWindowAcrossBlocks) {
  Stream stream(16, 16, 1);
  EXPECT_EQ(stream.run_chunks({16, 5, 16, 11, 16}),
            (SeenList{{16, 0, 1}, {16, 5, 2}, {16, 5, 2}, {16, 0, 1}, {16, 0, 1}}));
}

TEST(Eviction, FreesABlockOnlyOnceAllOfItIsOutside) {
  Stream stream(4, 16, 1);
  EXPECT_EQ(stream.run_chunks({4, 4, 4, 4, 4, 4}),
            (SeenList{{4, 0, 1}, {4, 4, 1}, {4, 8, 1}, {4, 12, 1}, {4, 0, 1}, {4, 4, 1}}));
}

TEST(Eviction, FreesSeveralBlocksOfAChunkAtOnce) {
  Stream stream(16, 4, 1);
  EXPECT_EQ(stream.run_chunks({16, 6, 16}), (SeenList{{16, 0, 4}, {16, 2, 5}, {16, 2, 5}}));
}

TEST(Eviction, WithoutLeftContextAFullBlockIsFreedAsSoonAsItIsCommitted) {
  Stream stream(16, 16, 0);
  EXPECT_EQ(stream.run_chunks({16, 16}), (SeenList{{0, 0, 0}, {0, 0, 0}}));
}

TEST(Eviction, WithoutLeftContextAPartlyWrittenBlockIsContinued) {
  Stream stream(4, 16, 0);
  EXPECT_EQ(stream.run_chunks({4}), (SeenList{{0, 4, 1}}));
  const auto block = stream.table();
  EXPECT_EQ(stream.run_chunks({4, 4}), (SeenList{{0, 8, 1}, {0, 12, 1}}));
  EXPECT_EQ(stream.table(), block);
  EXPECT_EQ(stream.run_chunks({4, 4}), (SeenList{{0, 0, 0}, {0, 4, 1}}));
}

TEST(Eviction, WithoutLeftContextAChunkMayCrossBlocks) {
  Stream stream(6, 4, 0);
  EXPECT_EQ(stream.run_chunks({6, 6, 6, 3, 6}),
            (SeenList{{0, 2, 1}, {0, 0, 0}, {0, 2, 1}, {0, 1, 1}, {0, 3, 1}}));
}

TEST(Eviction, TheWorstCaseFillsTheReservationExactly) {
  Stream stream(6, 4, 0);
  (void)stream.run_chunks({3});
  stream.attention().prepare_chunk(0, 6);
  EXPECT_EQ(static_cast<int>(stream.table().size()), stream.attention().table_width());
}

TEST(Eviction, ABoundedStreamIsNeverAtCapacity) {
  Stream stream(4, 4, 1);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(stream.attention().at_capacity(0));
    (void)stream.run_chunk(4);
  }
}

}  // namespace
}  // namespace tutti
