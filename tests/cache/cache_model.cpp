#include "tests/cache/cache_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>

namespace tutti {
namespace {

constexpr int num_layers = 2;
constexpr int head_dim = 2;
constexpr int pool_streams = 4;
constexpr int max_streams = 6;

CacheConfig config_for(const Geometry& g, int streams) {
  return {.num_layers = num_layers,
          .n_kv_head = 1,
          .head_dim = head_dim,
          .hidden_dim = head_dim,
          .chunk_size = g.chunk,
          .num_left_chunks = g.left,
          .block_size_frames = g.block,
          .max_blocks_per_seq = g.left < 0 ? 8 : 64,
          .max_streams = streams,
          .max_batch_size = streams};
}

/// Distinct for every frame, layer, K or V and element, and exact in a float for the first million frames.
float stored(int frame, int layer, int kv, int element) {
  return static_cast<float>(((frame * num_layers + layer) * 2 + kv) * head_dim + element);
}

/// Where K or V of the lane's frame `i` lies, counted from its oldest cached one.
float* address(const PagedKv& kv, const TensorView& half, int lane, int i) {
  const int64_t block_size = half.shape[1];
  const int64_t position = int64_t{kv.cache_begin[static_cast<size_t>(lane)]} + i;
  const int32_t block = kv.block_table[static_cast<size_t>(lane * kv.table_width + position / block_size)];
  return half[block][position % block_size].f32();
}

}  // namespace

std::string to_string(const Geometry& g) {
  return "Chunk" + std::to_string(g.chunk) + "Block" + std::to_string(g.block) +
         (g.short_chunks ? "Short" : "") + "Left" + (g.left < 0 ? "Unlimited" : std::to_string(g.left));
}

CacheModel::CacheModel(const Geometry& geometry, uint64_t seed)
    : geometry_(geometry),
      random_(seed),
      pool_(config_for(geometry, pool_streams), ops_),
      cache_(pool_, config_for(geometry, max_streams)),
      batch_(pool_, max_streams, cache_.table_width()) {}

void CacheModel::step() {
  const int dice = random(1, 100);
  if (dice <= 8 || streams_.empty()) {
    admit();
  } else if (dice <= 60) {
    tick();
  } else if (dice <= 72) {
    prepare_only();
  } else if (dice <= 84) {
    commit_one();
  } else if (dice <= 90) {
    prepare_while_an_outsider_holds_blocks();
  } else if (dice <= 93) {
    reset_one();
  } else if (dice <= 96) {
    free_one();
  } else {
    make_refused_calls();
  }
  check_invariants();
}

void CacheModel::admit() {
  const StreamId id = next_id_++;
  const bool room = streams_.size() < pool_streams;
  EXPECT_EQ(cache_.can_admit(), room);
  if (room) {
    cache_.allocate_stream(id);
    streams_[id];
  } else {
    EXPECT_THROW(cache_.allocate_stream(id), PoolExhausted);
    ++coverage_.refused_admissions;
  }
}

void CacheModel::tick() {
  const Batch batch = random_batch();
  cache_.prepare_chunks_batched(batch.ids, batch.frames);
  mark_prepared(batch);
  run(batch.ids);
}

void CacheModel::prepare_only() {
  const Batch batch = random_batch();
  for (size_t lane = 0; lane < batch.ids.size(); ++lane) {
    cache_.prepare_chunk(batch.ids[lane], batch.frames[lane]);
  }
  mark_prepared(batch);
}

void CacheModel::prepare_while_an_outsider_holds_blocks() {
  std::vector<int32_t> taken(static_cast<size_t>(random(pool_.num_free() / 2, pool_.num_free())));
  pool_.allocate(taken);
  const Batch batch = random_batch();
  if (missing_blocks(batch) > pool_.num_free()) {
    EXPECT_THROW(cache_.prepare_chunks_batched(batch.ids, batch.frames), PoolExhausted);
    ++coverage_.exhausted_batches;
  } else {
    cache_.prepare_chunks_batched(batch.ids, batch.frames);
    mark_prepared(batch);
  }
  pool_.free(taken);
}

void CacheModel::commit_one() {
  const StreamId id = random_stream();
  if (streams_[id].prepared > 0) run({id});
}

void CacheModel::reset_one() {
  const StreamId id = random_stream();
  cache_.reset_stream(id);
  streams_[id] = {};
}

void CacheModel::free_one() {
  const StreamId id = random_stream();
  cache_.free_stream(id);
  streams_.erase(id);
}

void CacheModel::make_refused_calls() {
  const StreamId id = random_stream();
  const Stream& s = streams_[id];
  const std::array<StreamId, 2> twice{id, id};
  EXPECT_THROW(cache_.allocate_stream(id), std::invalid_argument);
  EXPECT_THROW(cache_.prepare_chunk(next_id_, 1), UnknownStream);
  EXPECT_THROW(cache_.free_stream(next_id_), UnknownStream);
  EXPECT_THROW(cache_.prepare_chunk(id, 0), std::invalid_argument);
  EXPECT_THROW(cache_.prepare_chunk(id, geometry_.chunk + 1), std::invalid_argument);
  EXPECT_THROW(cache_.prepare_chunks_batched(twice, std::array{1, 1}), std::invalid_argument);
  EXPECT_THROW(cache_.commit_chunk_paged(id, s.prepared + 1), std::logic_error);
  EXPECT_THROW(cache_.commit_chunk_paged(id, -1), std::invalid_argument);
  if (s.prepared == 0) {
    EXPECT_THROW(cache_.fill_batch(std::array{id}, batch_), std::logic_error);
  }
  if (blocks_with(s, geometry_.chunk) > cache_.table_width()) {
    EXPECT_THROW(cache_.prepare_chunk(id, geometry_.chunk), std::logic_error);
  }
}

void CacheModel::run(const std::vector<StreamId>& ids) {
  cache_.fill_batch(ids, batch_);
  for (size_t lane = 0; lane < ids.size(); ++lane) {
    check_history(streams_[ids[lane]], static_cast<int>(lane));
    write_frames(streams_[ids[lane]], static_cast<int>(lane));
  }
  for (const StreamId id : ids) commit(id, random_length(streams_[id].prepared));
}

void CacheModel::check_history(const Stream& s, int lane) const {
  const int cached = batch_.layer(0).cache_seqlens[static_cast<size_t>(lane)];
  ASSERT_EQ(cached, std::ssize(s.window));
  for (int l = 0; l < num_layers; ++l) {
    const PagedKv kv = batch_.layer(l);
    for (int i = 0; i < cached; ++i) {
      const int frame = s.window[static_cast<size_t>(i)];
      for (int e = 0; e < head_dim; ++e) {
        ASSERT_EQ(address(kv, kv.k, lane, i)[e], stored(frame, l, 0, e)) << "frame " << i << " of " << cached;
        ASSERT_EQ(address(kv, kv.v, lane, i)[e], stored(frame, l, 1, e)) << "frame " << i << " of " << cached;
      }
    }
  }
}

void CacheModel::write_frames(Stream& s, int lane) {
  s.written.clear();
  for (int i = 0; i < s.prepared; ++i) {
    const int frame = next_frame_++;
    s.written.push_back(frame);
    for (int l = 0; l < num_layers; ++l) {
      const PagedKv kv = batch_.layer(l);
      const int position = static_cast<int>(s.window.size()) + i;
      for (int e = 0; e < head_dim; ++e) {
        address(kv, kv.k, lane, position)[e] = stored(frame, l, 0, e);
        address(kv, kv.v, lane, position)[e] = stored(frame, l, 1, e);
      }
    }
  }
}

void CacheModel::commit(StreamId id, int frames) {
  cache_.commit_chunk_paged(id, frames);
  Stream& s = streams_[id];
  if (frames < s.prepared) ++coverage_.short_commits;
  s.window.insert(s.window.end(), s.written.begin(), s.written.begin() + frames);
  s.committed += frames;
  s.prepared = 0;
  if (geometry_.left < 0) return;
  const auto limit = static_cast<size_t>(geometry_.left * geometry_.chunk);
  while (s.window.size() > limit) s.window.pop_front();
}

/// Blocks are counted from the stream's first frame on, so a block's number never changes.
int64_t CacheModel::first_block(const Stream& s) const {
  return (s.committed - std::ssize(s.window)) / geometry_.block;
}

int CacheModel::blocks_with(const Stream& s, int frames) const {
  const int64_t end = (s.committed + frames + geometry_.block - 1) / geometry_.block;
  return static_cast<int>(end - first_block(s));
}

int CacheModel::missing_blocks(const Batch& batch) {
  int missing = 0;
  for (size_t lane = 0; lane < batch.ids.size(); ++lane) {
    const Stream& s = streams_[batch.ids[lane]];
    missing += std::max(0, blocks_with(s, batch.frames[lane]) - blocks_with(s, s.prepared));
  }
  return missing;
}

void CacheModel::mark_prepared(const Batch& batch) {
  for (size_t lane = 0; lane < batch.ids.size(); ++lane) {
    Stream& s = streams_[batch.ids[lane]];
    s.prepared = std::max(s.prepared, batch.frames[lane]);
  }
}

void CacheModel::check_invariants() {
  EXPECT_EQ(cache_.num_streams(), std::ssize(streams_));
  EXPECT_EQ(cache_.reserved_blocks(), cache_.num_streams() * cache_.table_width());
  EXPECT_LE(cache_.reserved_blocks(), pool_.num_blocks());
  for (auto& [id, s] : streams_) check_stream(id, s);
  check_ownership();
}

void CacheModel::check_stream(StreamId id, Stream& s) {
  const int64_t first = first_block(s);
  EXPECT_EQ(cache_.cached_frames(id), std::ssize(s.window));
  EXPECT_EQ(cache_.committed_frames(id), s.committed);
  EXPECT_EQ(cache_.cache_begin(id), s.committed - std::ssize(s.window) - first * geometry_.block);

  const bool full = geometry_.left < 0 && blocks_with(s, geometry_.chunk) > cache_.table_width();
  EXPECT_EQ(cache_.at_capacity(id), full);
  coverage_.at_capacity += full ? 1 : 0;

  const auto table = cache_.block_table(id);
  EXPECT_EQ(std::ssize(table), blocks_with(s, s.prepared));
  EXPECT_LE(std::ssize(table), cache_.table_width());
  EXPECT_LE(blocks_with(s, 0), pool_.config().max_logical_blocks().value_or(cache_.table_width()));
  std::map<int64_t, int32_t> blocks;
  for (size_t b = 0; b < table.size(); ++b) blocks[first + static_cast<int64_t>(b)] = table[b];
  for (const auto& [number, block] : s.blocks) {
    if (number < first) ++coverage_.evicted_blocks;
    if (blocks.contains(number)) {
      EXPECT_EQ(blocks[number], block) << "a block that stays does not move";
    }
  }
  s.blocks = std::move(blocks);
}

void CacheModel::check_ownership() const {
  std::set<int32_t> owned;
  for (const auto& [id, s] : streams_) {
    for (const int32_t block : cache_.block_table(id)) {
      EXPECT_TRUE(owned.insert(block).second) << "block " << block << " has two owners";
      EXPECT_TRUE(block >= 0 && block < pool_.num_blocks());
    }
  }
  EXPECT_EQ(std::ssize(owned) + pool_.num_free(), pool_.num_blocks());
}

int CacheModel::random(int min, int max) { return std::uniform_int_distribution(min, max)(random_); }

/// Mostly `full`, unless the geometry is one of short chunks; at times 0 for a commit that is abandoned.
int CacheModel::random_length(int full) {
  if (random(1, 100) > (geometry_.short_chunks ? 80 : 10)) return full;
  return random(0, full);
}

StreamId CacheModel::random_stream() {
  return std::next(streams_.begin(), random(0, static_cast<int>(streams_.size()) - 1))->first;
}

/// Some of the streams in a random order, with lengths that fit.
CacheModel::Batch CacheModel::random_batch() {
  std::vector<StreamId> ids;
  for (const auto& [id, s] : streams_) ids.push_back(id);
  std::ranges::shuffle(ids, random_);
  ids.resize(static_cast<size_t>(random(1, static_cast<int>(ids.size()))));
  Batch batch;
  for (const StreamId id : ids) {
    const int frames = std::max(1, random_length(geometry_.chunk));
    if (blocks_with(streams_[id], frames) > cache_.table_width()) continue;
    batch.ids.push_back(id);
    batch.frames.push_back(frames);
  }
  return batch;
}

}  // namespace tutti
