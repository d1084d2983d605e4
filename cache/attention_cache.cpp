#include "cache/attention_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "cache/dense_kv.hpp"

namespace tutti {
namespace {

size_t checked_pad_lanes(int pad_lanes, const BlockPool& pool) {
  if (pad_lanes < 0) {
    throw std::invalid_argument(
        fmt::format("AttentionCacheManager: pad_lanes = {}, expected a number from 0 on", pad_lanes));
  }
  if (pad_lanes > 0 && pool.scratch_blocks() == 0) {
    throw std::invalid_argument(fmt::format(
        "AttentionCacheManager: pad_lanes = {}, expected 0 over a pool without scratch blocks", pad_lanes));
  }
  return static_cast<size_t>(pad_lanes);
}

}  // namespace

AttentionCacheManager::AttentionCacheManager(BlockPool& pool, const CacheConfig& config, int pad_lanes)
    : pool_(pool),
      config_(config.validated()),
      blocks_per_stream_(config_.blocks_per_stream()),
      pad_lanes_(pad_lanes),
      index_(config_.max_streams),
      states_(static_cast<size_t>(config_.max_streams) + checked_pad_lanes(pad_lanes, pool)),
      tables_(states_.size() * static_cast<size_t>(blocks_per_stream_)),
      allocated_(states_.size() * static_cast<size_t>(config_.blocks_per_dispatch())),
      seen_in_(states_.size()) {
  lane_rows_.reserve(states_.size());
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
  make_pad_lanes();
}

void AttentionCacheManager::make_pad_lanes() {
  for (int lane = 0; lane < pad_lanes_; ++lane) {
    const int row = config_.max_streams + lane;
    std::ranges::fill(table(row), pool_.scratch_block(lane % pool_.scratch_blocks()));
    State& s = states_[static_cast<size_t>(row)];
    s.num_blocks = blocks_per_stream_;
    if (config_.prefill_kv_window) s.cached = *config_.window_frames();
  }
}

bool AttentionCacheManager::can_admit() const {
  return index_.num_free() > 0 && reserved_blocks() + blocks_per_stream_ <= pool_.num_blocks();
}

void AttentionCacheManager::allocate_stream(StreamId id) {
  constexpr auto where = "AttentionCacheManager::allocate_stream";
  const int row = index_.insert(where, id);
  try {
    if (reserved_blocks() > pool_.num_blocks()) {
      const int available = pool_.num_blocks() - (reserved_blocks() - blocks_per_stream_);
      throw PoolExhausted(fmt::format("{}: requested {} blocks, {} of {} are not reserved", where,
                                      blocks_per_stream_, available, pool_.num_blocks()));
    }
    begin_history(row);
  } catch (...) {
    index_.erase(where, id);
    throw;
  }
}

void AttentionCacheManager::free_stream(StreamId id) {
  free_all_blocks(index_.erase("AttentionCacheManager::free_stream", id));
}

void AttentionCacheManager::reset_stream(StreamId id) {
  const int row = index_.at("AttentionCacheManager::reset_stream", id);
  free_all_blocks(row);
  begin_history(row);
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
  const std::span<const int> rows = rows_of(where, ids);
  size_t missing = 0;
  for (size_t lane = 0; lane < rows.size(); ++lane) {
    const State& s = states_[static_cast<size_t>(rows[lane])];
    missing += static_cast<size_t>(missing_blocks(where, ids[lane], s, frames[lane]));
  }
  std::span<const int32_t> allocated = std::span(allocated_).first(missing);
  pool_.allocate(std::span(allocated_).first(missing));
  for (size_t lane = 0; lane < rows.size(); ++lane) {
    State& s = states_[static_cast<size_t>(rows[lane])];
    const auto share = static_cast<size_t>(missing_blocks(where, ids[lane], s, frames[lane]));
    give_blocks(rows[lane], allocated.first(share));
    allocated = allocated.subspan(share);
    s.prepared = std::max(s.prepared, frames[lane]);
  }
}

void AttentionCacheManager::fill_batch(std::span<const StreamId> ids, PagedKvCache& batch,
                                       int padding) const {
  constexpr auto where = "AttentionCacheManager::fill_batch";
  if (batch.table_width() != table_width()) {
    throw std::invalid_argument(
        fmt::format("{}: table width {}, expected {}", where, batch.table_width(), table_width()));
  }
  if (padding < 0 || (padding > 0 && pad_lanes_ == 0)) {
    throw std::invalid_argument(fmt::format("{}: {} lanes of padding, expected {}", where, padding,
                                            pad_lanes_ == 0 ? "none without pad lanes" : "0 or more"));
  }
  const size_t lanes = ids.size() + static_cast<size_t>(padding);
  if (lanes > static_cast<size_t>(batch.max_lanes())) {
    throw std::invalid_argument(
        fmt::format("{}: {} lanes, expected at most {}", where, lanes, batch.max_lanes()));
  }
  const std::span<const int> rows = rows_of(where, ids);
  for (size_t lane = 0; lane < rows.size(); ++lane) (void)prepared_state(where, ids[lane], rows[lane]);
  batch.lanes_ = static_cast<int>(lanes);
  for (size_t lane = 0; lane < lanes; ++lane) {
    const bool pads = lane >= rows.size();
    const int row =
        pads ? config_.max_streams + static_cast<int>(lane - rows.size()) % pad_lanes_ : rows[lane];
    const State& s = states_[static_cast<size_t>(row)];
    batch.set_lane(lane, table(row).first(static_cast<size_t>(s.num_blocks)), s.cached, s.begin);
  }
}

AttentionCacheManager::PagedStateViews AttentionCacheManager::get_paged_state_views(StreamId id) const {
  constexpr auto where = "AttentionCacheManager::get_paged_state_views";
  const int row = index_.at(where, id);
  const State& s = prepared_state(where, id, row);
  return {.block_table = table(row), .cache_seqlens = {&s.cached, 1}, .cache_begin = {&s.begin, 1}};
}

PagedKv AttentionCacheManager::get_paged_cache(StreamId id, int layer) const {
  const PagedStateViews views = get_paged_state_views(id);
  const BlockPool::KvView kv = pool_.get_kv_view(layer);
  return {.k = kv.k,
          .v = kv.v,
          .block_table = views.block_table,
          .table_width = table_width(),
          .cache_seqlens = views.cache_seqlens,
          .cache_begin = views.cache_begin};
}

void AttentionCacheManager::commit_chunk_paged(StreamId id, int frames) {
  constexpr auto where = "AttentionCacheManager::commit_chunk_paged";
  const int row = index_.at(where, id);
  State& s = states_[static_cast<size_t>(row)];
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
  evict(row);
}

void AttentionCacheManager::commit(StreamId id, const TensorView& packed) {
  constexpr auto where = "AttentionCacheManager::commit";
  const State& s = state(where, id);
  const int frames = require_packed_chunk(where, pool_, packed);
  if (frames > config_.block_size_frames) {
    throw std::invalid_argument(fmt::format("{}: {} frames, expected at most {}, the block size", where,
                                            frames, config_.block_size_frames));
  }
  prepare_chunk(id, frames);
  scatter_kv_frames(pool_, block_table(id), s.begin + s.cached, packed);
  commit_chunk_paged(id, frames);
}

Tensor AttentionCacheManager::get_stacked_cache(StreamId id) const {
  const State& s = state("AttentionCacheManager::get_stacked_cache", id);
  return gather_kv_blocks(pool_, block_table(id), s.begin, s.cached);
}

bool AttentionCacheManager::at_capacity(StreamId id) const {
  const State& s = state("AttentionCacheManager::at_capacity", id);
  return !config_.evicts() && blocks_for(s, config_.chunk_size) > blocks_per_stream_;
}

int AttentionCacheManager::cached_frames(StreamId id) const {
  return state("AttentionCacheManager::cached_frames", id).cached;
}

int AttentionCacheManager::cached_frames(std::span<const StreamId> ids) const {
  int longest = 0;
  for (const StreamId id : ids) longest = std::max(longest, cached_frames(id));
  return longest;
}

int AttentionCacheManager::cache_begin(StreamId id) const {
  return state("AttentionCacheManager::cache_begin", id).begin;
}

int64_t AttentionCacheManager::committed_frames(StreamId id) const {
  return state("AttentionCacheManager::committed_frames", id).committed;
}

std::span<const int32_t> AttentionCacheManager::block_table(StreamId id) const {
  const int row = index_.at("AttentionCacheManager::block_table", id);
  return table(row).first(static_cast<size_t>(states_[static_cast<size_t>(row)].num_blocks));
}

const AttentionCacheManager::State& AttentionCacheManager::state(const char* where, StreamId id) const {
  return states_[static_cast<size_t>(index_.at(where, id))];
}

const AttentionCacheManager::State& AttentionCacheManager::prepared_state(const char* where, StreamId id,
                                                                          int row) const {
  const State& s = states_[static_cast<size_t>(row)];
  if (s.prepared == 0) {
    throw std::logic_error(
        fmt::format("{}: stream {} has no prepared chunk, expected prepare_chunk before", where, id));
  }
  return s;
}

/// The streams' rows, in order; throws for a stream that comes twice. Valid until the next call.
std::span<const int> AttentionCacheManager::rows_of(const char* where, std::span<const StreamId> ids) const {
  ++call_;
  lane_rows_.clear();
  for (const StreamId id : ids) {
    const int row = index_.at(where, id);
    uint64_t& seen = seen_in_[static_cast<size_t>(row)];
    if (seen == call_) {
      throw std::invalid_argument(fmt::format("{}: stream {} is in the batch twice", where, id));
    }
    seen = call_;
    lane_rows_.push_back(row);
  }
  return lane_rows_;
}

std::span<const int32_t> AttentionCacheManager::table(int row) const {
  const auto width = static_cast<size_t>(blocks_per_stream_);
  return std::span(tables_).subspan(static_cast<size_t>(row) * width, width);
}

std::span<int32_t> AttentionCacheManager::table(int row) {
  const auto width = static_cast<size_t>(blocks_per_stream_);
  return std::span(tables_).subspan(static_cast<size_t>(row) * width, width);
}

std::span<int32_t> AttentionCacheManager::blocks(int row) {
  return table(row).first(static_cast<size_t>(states_[static_cast<size_t>(row)].num_blocks));
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

/// Puts them behind those that the row has.
void AttentionCacheManager::give_blocks(int row, std::span<const int32_t> added) {
  State& s = states_[static_cast<size_t>(row)];
  std::ranges::copy(added, table(row).subspan(static_cast<size_t>(s.num_blocks)).begin());
  s.num_blocks += static_cast<int>(added.size());
}

/// Of a row without blocks. Past the cached length no kernel looks, so only a prefilled window is zeroed.
void AttentionCacheManager::begin_history(int row) {
  State& s = states_[static_cast<size_t>(row)];
  s = State{};
  if (!config_.prefill_kv_window) return;
  State filled;
  filled.cached = *config_.window_frames();
  filled.num_blocks = blocks_for(filled, 0);
  const auto window = table(row).first(static_cast<size_t>(filled.num_blocks));
  pool_.allocate(window);
  pool_.zero(window);
  s = filled;
}

AttentionCacheManager::History AttentionCacheManager::history(StreamId id) const {
  constexpr auto where = "AttentionCacheManager::history";
  const State& s = state(where, id);
  if (s.prepared > 0) throw std::logic_error(fmt::format("{}: a chunk of stream {} is prepared", where, id));
  return {.committed = s.committed, .cached = s.cached, .begin = s.begin};
}

void AttentionCacheManager::restore_history(StreamId id, const History& history) {
  constexpr auto where = "AttentionCacheManager::restore_history";
  const int row = index_.at(where, id);
  State restored{.committed = history.committed, .cached = history.cached, .begin = history.begin};
  const int needed = blocks_for(restored, 0);
  if (history.cached < 0 || history.begin < 0 || history.begin >= config_.block_size_frames ||
      needed > blocks_per_stream_) {
    throw std::invalid_argument(
        fmt::format("{}: {} frames from frame {} of a block, expected a history of at most {} blocks of {}",
                    where, history.cached, history.begin, blocks_per_stream_, config_.block_size_frames));
  }
  free_all_blocks(row);
  const auto held = table(row).first(static_cast<size_t>(needed));
  pool_.allocate(held);
  restored.num_blocks = needed;
  states_[static_cast<size_t>(row)] = restored;
}

/// How many of the oldest frames have to go.
int AttentionCacheManager::frames_outside(const State& s) const {
  if (config_.evicts()) return std::max(0, s.cached - *config_.window_frames());
  if (!config_.recycles()) return 0;
  const int surplus = blocks_for(s, config_.chunk_size) - blocks_per_stream_;
  return std::max(0, surplus) * config_.block_size_frames;
}

/// Narrows the stream to its window and frees the blocks that are then wholly outside, at the front, or that
/// no retained frame uses, at the back.
void AttentionCacheManager::evict(int row) {
  State& s = states_[static_cast<size_t>(row)];
  const int outside = frames_outside(s);
  s.cached -= outside;
  s.begin += outside;
  const auto held = blocks(row);
  const auto front = static_cast<size_t>(s.begin / config_.block_size_frames);
  s.begin -= static_cast<int>(front) * config_.block_size_frames;
  const auto kept = static_cast<size_t>(blocks_for(s, 0));
  if (kept == held.size()) return;
  pool_.free(held.subspan(front + kept));
  pool_.free(held.first(front));
  std::ranges::copy(held.subspan(front, kept), held.begin());
  std::ranges::fill(held.subspan(kept), 0);
  s.num_blocks = static_cast<int>(kept);
}

void AttentionCacheManager::free_all_blocks(int row) {
  const auto held = blocks(row);
  pool_.free(held);
  std::ranges::fill(held, 0);
  states_[static_cast<size_t>(row)].num_blocks = 0;
}

}  // namespace tutti
