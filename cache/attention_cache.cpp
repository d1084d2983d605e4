#include "cache/attention_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace tutti {
namespace {

void require_distinct(const char* where, std::span<const StreamId> ids) {
  for (size_t i = 1; i < ids.size(); ++i) {
    const auto earlier = ids.first(i);
    if (std::ranges::find(earlier, ids[i]) == earlier.end()) continue;
    throw std::invalid_argument(fmt::format("{}: stream {} is in the batch twice", where, ids[i]));
  }
}

}  // namespace

AttentionCacheManager::AttentionCacheManager(BlockPool& pool, const CacheConfig& config)
    : pool_(pool),
      config_(config.validated()),
      blocks_per_stream_(config_.blocks_per_stream()),
      index_(config_.max_streams),
      states_(static_cast<size_t>(config_.max_streams)),
      tables_(states_.size() * static_cast<size_t>(blocks_per_stream_)),
      allocated_(states_.size() * static_cast<size_t>(config_.blocks_per_dispatch())) {
  if (config_.block_size_frames != pool_.config().block_size_frames) {
    throw std::invalid_argument(
        fmt::format("AttentionCacheManager: block_size_frames = {}, expected {} as in the pool",
                    config_.block_size_frames, pool_.config().block_size_frames));
  }
  if (pool_.dtype() == DType::f8e4m3) {
    throw std::invalid_argument(
        "AttentionCacheManager: the pool stores fp8_e4m3, which is for a decoder's K/V; expected f32 or "
        "bf16");
  }
}

bool AttentionCacheManager::can_admit() const {
  return index_.num_free() > 0 && reserved_blocks() + blocks_per_stream_ <= pool_.num_blocks();
}

void AttentionCacheManager::allocate_stream(StreamId id) {
  constexpr auto where = "AttentionCacheManager::allocate_stream";
  const int index = index_.insert(where, id);
  if (reserved_blocks() > pool_.num_blocks()) {
    index_.erase(where, id);
    throw PoolExhausted(fmt::format("{}: requested {} blocks, {} of {} are not reserved", where,
                                    blocks_per_stream_, pool_.num_blocks() - reserved_blocks(),
                                    pool_.num_blocks()));
  }
  states_[static_cast<size_t>(index)] = State{};
}

void AttentionCacheManager::free_stream(StreamId id) {
  free_all_blocks(index_.erase("AttentionCacheManager::free_stream", id));
}

void AttentionCacheManager::reset_stream(StreamId id) {
  const int index = index_.at("AttentionCacheManager::reset_stream", id);
  free_all_blocks(index);
  states_[static_cast<size_t>(index)] = State{};
}

void AttentionCacheManager::prepare_chunk(StreamId id, int frames) {
  prepare_chunks_batched(std::span(&id, 1), std::span(&frames, 1));
}

void AttentionCacheManager::prepare_chunks_batched(std::span<const StreamId> ids,
                                                   std::span<const int> frames) {
  constexpr auto where = "AttentionCacheManager::prepare_chunks_batched";
  if (ids.size() != frames.size()) {
    throw std::invalid_argument(
        fmt::format("{}: {} frame counts, expected {}", where, frames.size(), ids.size()));
  }
  require_distinct(where, ids);
  size_t missing = 0;
  for (size_t lane = 0; lane < ids.size(); ++lane) {
    missing += static_cast<size_t>(missing_blocks(where, ids[lane], state(where, ids[lane]), frames[lane]));
  }
  pool_.allocate(std::span(allocated_).first(missing));
  std::span<const int32_t> blocks = std::span(allocated_).first(missing);
  for (size_t lane = 0; lane < ids.size(); ++lane) {
    give_missing_blocks(index_.at(where, ids[lane]), frames[lane], blocks);
  }
}

void AttentionCacheManager::fill_batch(std::span<const StreamId> ids, PagedKvCache& batch) const {
  constexpr auto where = "AttentionCacheManager::fill_batch";
  if (batch.table_width() != table_width()) {
    throw std::invalid_argument(
        fmt::format("{}: table width {}, expected {}", where, batch.table_width(), table_width()));
  }
  if (ids.size() > static_cast<size_t>(batch.max_lanes())) {
    throw std::invalid_argument(
        fmt::format("{}: {} lanes, expected at most {}", where, ids.size(), batch.max_lanes()));
  }
  require_distinct(where, ids);
  for (const StreamId id : ids) {
    if (state(where, id).prepared > 0) continue;
    throw std::logic_error(fmt::format("{}: stream {} has no prepared chunk", where, id));
  }
  batch.lanes_ = static_cast<int>(ids.size());
  for (int lane = 0; lane < batch.lanes_; ++lane) {
    const StreamId id = ids[static_cast<size_t>(lane)];
    const State& s = state(where, id);
    batch.set_lane(lane, block_table(id), s.cached, s.begin);
  }
}

void AttentionCacheManager::commit_chunk_paged(StreamId id, int frames) {
  constexpr auto where = "AttentionCacheManager::commit_chunk_paged";
  const int index = index_.at(where, id);
  State& s = states_[static_cast<size_t>(index)];
  if (frames < 0) {
    throw std::invalid_argument(fmt::format("{}: {} frames, expected 0 or more", where, frames));
  }
  if (frames > s.prepared) {
    throw std::logic_error(fmt::format("{}: stream {} commits {} frames, expected at most the {} prepared",
                                       where, id, frames, s.prepared));
  }
  s.committed += frames;
  s.cached += frames;
  s.prepared = 0;
  evict(index);
}

bool AttentionCacheManager::at_capacity(StreamId id) const {
  const State& s = state("AttentionCacheManager::at_capacity", id);
  return !config_.evicts() && blocks_for(s, config_.chunk_size) > blocks_per_stream_;
}

int AttentionCacheManager::cached_frames(StreamId id) const {
  return state("AttentionCacheManager::cached_frames", id).cached;
}

int AttentionCacheManager::cache_begin(StreamId id) const {
  return state("AttentionCacheManager::cache_begin", id).begin;
}

int64_t AttentionCacheManager::committed_frames(StreamId id) const {
  return state("AttentionCacheManager::committed_frames", id).committed;
}

std::span<const int32_t> AttentionCacheManager::block_table(StreamId id) const {
  const int index = index_.at("AttentionCacheManager::block_table", id);
  return std::span(tables_).subspan(row_begin(index), row_size(index));
}

const AttentionCacheManager::State& AttentionCacheManager::state(const char* where, StreamId id) const {
  return states_[static_cast<size_t>(index_.at(where, id))];
}

size_t AttentionCacheManager::row_begin(int index) const {
  return static_cast<size_t>(index) * static_cast<size_t>(blocks_per_stream_);
}

size_t AttentionCacheManager::row_size(int index) const {
  return static_cast<size_t>(states_[static_cast<size_t>(index)].num_blocks);
}

std::span<int32_t> AttentionCacheManager::row(int index) {
  return std::span(tables_).subspan(row_begin(index), row_size(index));
}

/// Blocks that hold the retained frames and `frames` more.
int AttentionCacheManager::blocks_for(const State& s, int frames) const {
  const int block = config_.block_size_frames;
  return (s.begin + s.cached + frames + block - 1) / block;
}

/// Blocks that preparing `frames` would add; throws for what prepare refuses.
int AttentionCacheManager::missing_blocks(const char* where, StreamId id, const State& s, int frames) const {
  if (frames < 1 || frames > config_.chunk_size) {
    throw std::invalid_argument(
        fmt::format("{}: {} frames, expected 1 to {}, the chunk size", where, frames, config_.chunk_size));
  }
  const int needed = blocks_for(s, frames);
  if (needed > blocks_per_stream_) {
    throw std::logic_error(fmt::format("{}: stream {} is at capacity: needs {} blocks, expected at most {}",
                                       where, id, needed, blocks_per_stream_));
  }
  return std::max(0, needed - s.num_blocks);
}

/// Moves the stream's share from the front of `blocks` to the end of its table row.
void AttentionCacheManager::give_missing_blocks(int index, int frames, std::span<const int32_t>& blocks) {
  State& s = states_[static_cast<size_t>(index)];
  const auto held = static_cast<size_t>(s.num_blocks);
  const auto missing = static_cast<size_t>(std::max(0, blocks_for(s, frames) - s.num_blocks));
  s.num_blocks += static_cast<int>(missing);
  s.prepared = std::max(s.prepared, frames);
  std::ranges::copy(blocks.first(missing), row(index).subspan(held).begin());
  blocks = blocks.subspan(missing);
}

/// Narrows the stream to its window and frees the blocks that are then wholly outside, at the front, or that
/// no retained frame uses, at the back.
void AttentionCacheManager::evict(int index) {
  State& s = states_[static_cast<size_t>(index)];
  const int outside = std::max(0, s.cached - config_.window_frames().value_or(s.cached));
  s.cached -= outside;
  s.begin += outside;
  const auto table = row(index);
  const auto front = static_cast<size_t>(s.begin / config_.block_size_frames);
  s.begin %= config_.block_size_frames;
  const auto kept = static_cast<size_t>(blocks_for(s, 0));
  pool_.free(table.subspan(front + kept));
  pool_.free(table.first(front));
  std::ranges::copy(table.subspan(front, kept), table.begin());
  s.num_blocks = static_cast<int>(kept);
}

void AttentionCacheManager::free_all_blocks(int index) {
  pool_.free(row(index));
  states_[static_cast<size_t>(index)].num_blocks = 0;
}

}  // namespace tutti
