#include "tests/cache/cache_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

namespace tutti {
namespace {

constexpr int num_layers = 2;
constexpr int head_dim = 2;
constexpr int pool_streams = 4;
constexpr int max_streams = 6;
constexpr int max_padding = 2;

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
          .max_batch_size = streams,
          .recycle_at_capacity = g.recycled,
          .prefill_kv_window = g.prefilled};
}

/// Distinct for every frame, layer, K or V and element, and exact in a float for the first two million
/// frames. Frame 0 is every frame of a prefilled window.
float stored(int frame, int layer, int kv, int element) {
  if (frame == 0) return 0;
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
         (g.short_chunks ? "Short" : "") + "Left" + (g.left < 0 ? "Unlimited" : std::to_string(g.left)) +
         (g.prefilled ? "Prefilled" : "") + (g.recycled ? "Recycled" : "");
}

CacheModel::CacheModel(const Geometry& geometry, uint64_t seed)
    : geometry_(geometry),
      random_(seed),
      pool_(config_for(geometry, pool_streams), ops_, DType::f32, 1),
      cache_(pool_, config_for(geometry, max_streams), 1),
      batch_(pool_, max_streams + max_padding, cache_.table_width()),
      owned_(static_cast<size_t>(pool_.num_blocks())) {}

void CacheModel::step() {
  const int dice = random(1, 100);
  if (dice <= 8 || streams_.empty()) {
    admit();
  } else if (dice <= 50) {
    tick();
  } else if (dice <= 62) {
    prepare_only();
  } else if (dice <= 74) {
    commit_one();
  } else if (dice <= 78) {
    commit_one_dense();
  } else if (dice <= 80) {
    read_one_dense();
  } else if (dice <= 88) {
    prepare_while_an_outsider_holds_blocks();
  } else if (dice <= 91) {
    finalize_one();
  } else if (dice <= 93) {
    reset_one();
  } else if (dice <= 96) {
    cancel_one();
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
    streams_[id] = new_stream();
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
  commit_all(batch.ids);
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
  if (streams_[id].prepared == 0) return;
  run({id});
  commit_all({id});
}

void CacheModel::commit_one_dense() {
  const StreamId id = random_stream();
  Stream& s = streams_[id];
  const int frames = random(1, std::min(geometry_.chunk, geometry_.block));
  if (blocks_with(s, frames) > cache_.table_width()) return;
  const Tensor packed = host_tensor(DType::f32, {num_layers, 1, frames, 2 * head_dim});
  s.written.clear();
  for (int t = 0; t < frames; ++t) s.written.push_back(next_frame_++);
  for (int l = 0; l < num_layers; ++l) {
    for (int t = 0; t < frames; ++t) {
      float* const both = packed.view()[l][0][t].f32();
      for (int i = 0; i < 2 * head_dim; ++i) {
        both[i] = stored(s.written[static_cast<size_t>(t)], l, i / head_dim, i % head_dim);
      }
    }
  }
  cache_.commit(id, packed);
  append(s, frames);
  ++coverage_.dense_commits;
}

void CacheModel::read_one_dense() {
  const StreamId id = random_stream();
  const Stream& s = streams_[id];
  const Tensor stacked = cache_.get_stacked_cache(id);
  ASSERT_EQ(stacked.shape(), (Shape{num_layers, 1, std::ssize(s.window), 2 * head_dim}));
  for (int l = 0; l < num_layers; ++l) {
    for (int t = 0; t < std::ssize(s.window); ++t) {
      const float* const both = stacked.view()[l][0][t].f32();
      for (int i = 0; i < 2 * head_dim; ++i) {
        ASSERT_EQ(both[i], stored(s.window[static_cast<size_t>(t)], l, i / head_dim, i % head_dim));
      }
    }
  }
}

/// A last short chunk, then a new segment.
void CacheModel::finalize_one() {
  const StreamId id = random_stream();
  Stream& s = streams_[id];
  const int frames = random(1, geometry_.chunk);
  if (blocks_with(s, frames) <= cache_.table_width()) {
    cache_.prepare_chunk(id, frames);
    mark_prepared({{id}, {frames}});
    run({id});
    commit(id, s.prepared);
  }
  cache_.reset_stream(id);
  s = new_stream();
}

void CacheModel::reset_one() {
  const StreamId id = random_stream();
  cache_.reset_stream(id);
  streams_[id] = new_stream();
}

/// Also between a chunk's preparation and its commit.
void CacheModel::cancel_one() {
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
  const int padding = random(0, max_padding);
  coverage_.padded_batches += padding > 0 ? 1 : 0;
  cache_.fill_batch(ids, batch_, padding);
  for (size_t lane = 0; lane < ids.size(); ++lane) {
    check_history(streams_[ids[lane]], static_cast<int>(lane));
    write_frames(streams_[ids[lane]], static_cast<int>(lane));
  }
  write_padding(static_cast<int>(ids.size()));
}

void CacheModel::commit_all(const std::vector<StreamId>& ids) {
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

/// What a kernel writes of lanes that only pad is of no use to anyone.
void CacheModel::write_padding(int first_lane) {
  for (int lane = first_lane; lane < batch_.lanes(); ++lane) {
    const PagedKv kv = batch_.layer(random(0, num_layers - 1));
    const int cached = kv.cache_seqlens[static_cast<size_t>(lane)];
    EXPECT_EQ(cached, prefill());
    for (int i = 0; i < geometry_.chunk; ++i) {
      std::fill_n(address(kv, kv.k, lane, cached + i), head_dim, NAN);
      std::fill_n(address(kv, kv.v, lane, cached + i), head_dim, NAN);
    }
  }
}

void CacheModel::commit(StreamId id, int frames) {
  cache_.commit_chunk_paged(id, frames);
  Stream& s = streams_[id];
  if (frames < s.prepared) ++coverage_.short_commits;
  append(s, frames);
}

/// The first `frames` of those written become history; what is too old goes.
void CacheModel::append(Stream& s, int frames) {
  s.window.insert(s.window.end(), s.written.begin(), s.written.begin() + frames);
  s.end += frames;
  s.prepared = 0;
  if (geometry_.left >= 0) {
    const auto limit = static_cast<size_t>(geometry_.left * geometry_.chunk);
    while (s.window.size() > limit) s.window.pop_front();
  } else if (geometry_.recycled) {
    while (blocks_with(s, geometry_.chunk) > cache_.table_width()) {
      s.window.erase(s.window.begin(), s.window.begin() + geometry_.block);
    }
  }
}

CacheModel::Stream CacheModel::new_stream() const {
  Stream s;
  s.window.assign(static_cast<size_t>(prefill()), 0);
  s.end = prefill();
  return s;
}

/// Blocks are counted from the stream's first frame on, so a block's number never changes.
int64_t CacheModel::first_block(const Stream& s) const {
  return (s.end - std::ssize(s.window)) / geometry_.block;
}

int CacheModel::blocks_with(const Stream& s, int frames) const {
  const int64_t end = (s.end + frames + geometry_.block - 1) / geometry_.block;
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
  EXPECT_EQ(cache_.committed_frames(id), s.end - prefill());
  EXPECT_EQ(cache_.cache_begin(id), s.end - std::ssize(s.window) - first * geometry_.block);

  const bool full = geometry_.left < 0 && blocks_with(s, geometry_.chunk) > cache_.table_width();
  EXPECT_EQ(cache_.at_capacity(id), full);
  coverage_.at_capacity += full ? 1 : 0;

  const auto table = cache_.block_table(id);
  EXPECT_EQ(std::ssize(table), blocks_with(s, s.prepared));
  EXPECT_LE(std::ssize(table), cache_.table_width());
  EXPECT_LE(blocks_with(s, 0), pool_.config().max_logical_blocks().value_or(cache_.table_width()));
  const auto evicted = static_cast<size_t>(std::min(first - s.first_block, std::ssize(s.blocks)));
  coverage_.evicted_blocks += static_cast<int>(evicted);
  const auto before = std::span(s.blocks).subspan(evicted);
  const size_t both = std::min(before.size(), table.size());
  EXPECT_TRUE(std::ranges::equal(before.first(both), table.first(both)))
      << "a block that stays does not move";
  s.blocks.assign(table.begin(), table.end());
  s.first_block = first;
  if (s.prepared > 0) check_views(id, table);
}

void CacheModel::check_views(StreamId id, std::span<const int32_t> table) {
  const auto views = cache_.get_paged_state_views(id);
  ASSERT_EQ(std::ssize(views.block_table), cache_.table_width());
  EXPECT_TRUE(std::ranges::equal(views.block_table.first(table.size()), table));
  EXPECT_TRUE(std::ranges::all_of(views.block_table.subspan(table.size()), [](int32_t b) { return b == 0; }));
  EXPECT_EQ(views.cache_seqlens[0], cache_.cached_frames(id));
  EXPECT_EQ(views.cache_begin[0], cache_.cache_begin(id));
}

void CacheModel::check_ownership() {
  std::fill(owned_.begin(), owned_.end(), false);
  int owned = 0;
  for (const auto& [id, s] : streams_) {
    for (const int32_t block : s.blocks) {
      ASSERT_TRUE(block >= 0 && block < pool_.num_blocks());
      EXPECT_FALSE(owned_[static_cast<size_t>(block)]) << "block " << block << " has two owners";
      owned_[static_cast<size_t>(block)] = true;
      ++owned;
    }
  }
  EXPECT_EQ(owned + pool_.num_free(), pool_.num_blocks());
  EXPECT_EQ(pool_.num_blocks() + 1, pool_.get_kv_view(0).k.shape[0]) << "and one of scratch";
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
