#include "config/cache_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace tutti {
namespace {

// Wider than anything that fits in memory, and small enough for the products below to stay inside an int64_t.
constexpr int64_t max_dimension = 1 << 20;
// Physical blocks and block table entries are int32_t.
constexpr int64_t max_blocks = std::numeric_limits<int32_t>::max();

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

[[noreturn]] void refuse(std::string_view field, int64_t value, std::string_view expected) {
  throw std::invalid_argument(
      fmt::format("cache configuration: {} = {}: expected {}", field, value, expected));
}

void require_within(std::string_view field, int64_t value, int64_t min, int64_t max) {
  if (value < min || value > max) refuse(field, value, fmt::format("a whole number from {} to {}", min, max));
}

void check_fields(const CacheConfig& c) {
  require_within("num_layers", c.num_layers, 1, max_dimension);
  require_within("n_kv_head", c.n_kv_head, 1, max_dimension);
  require_within("head_dim", c.head_dim, 1, max_dimension);
  require_within("hidden_dim", c.hidden_dim, 1, max_dimension);
  require_within("kernel_size", c.kernel_size, 1, max_dimension);
  require_within("chunk_size", c.chunk_size, 1, max_dimension);
  require_within("num_left_chunks", c.num_left_chunks, -1, max_dimension);
  require_within("block_size_frames", c.block_size_frames, 0, max_dimension);
  require_within("max_num_blocks", c.max_num_blocks, 0, max_blocks);
  require_within("max_blocks_per_seq", c.max_blocks_per_seq, 1, max_dimension);
  require_within("max_streams", c.max_streams, 1, max_dimension);
  require_within("max_batch_size", c.max_batch_size, 1, max_dimension);
  const int64_t window = int64_t{c.chunk_size} * c.num_left_chunks;
  if (window > max_dimension) {
    refuse("num_left_chunks", c.num_left_chunks,
           fmt::format("at most {} with chunk_size = {}", max_dimension / c.chunk_size, c.chunk_size));
  }
}

void check_prefill(const CacheConfig& c) {
  if (!c.prefill_kv_window || c.num_left_chunks > 0) return;
  throw std::invalid_argument(
      fmt::format("cache configuration: prefill_kv_window = true: expected false, or num_left_chunks of at "
                  "least 1 (it is {}), which makes the window there is to fill",
                  c.num_left_chunks));
}

void check_table_width(const CacheConfig& c) {
  const int64_t needed = c.min_blocks_per_stream();
  if (c.max_blocks_per_seq >= needed) return;
  refuse("max_blocks_per_seq", c.max_blocks_per_seq,
         fmt::format(
             "at least {}, the blocks one stream reserves ({} of history and {} for a chunk); raise it or "
             "block_size_frames, or lower num_left_chunks or chunk_size",
             needed, needed - c.blocks_per_dispatch(), c.blocks_per_dispatch()));
}

int derived_pool(const CacheConfig& c) {
  const int64_t per_stream = c.evicts() ? c.min_blocks_per_stream() : c.max_blocks_per_seq;
  const int64_t blocks = c.max_streams * per_stream;
  if (blocks > max_blocks) {
    refuse("max_streams", c.max_streams,
           fmt::format("at most {} with {} blocks a stream", max_blocks / per_stream, per_stream));
  }
  return static_cast<int>(blocks);
}

void check_pool(const CacheConfig& c) {
  const int64_t per_stream = c.min_blocks_per_stream();
  const int64_t needed = c.max_streams * per_stream;
  if (c.max_num_blocks >= needed) return;
  const std::string ways = c.ways_to_fit(c.max_num_blocks);
  refuse("max_num_blocks", c.max_num_blocks,
         fmt::format(
             "at least {}, which is max_streams = {} times {} blocks a stream; raise it (0 takes what is "
             "needed){}{}",
             needed, c.max_streams, per_stream, ways.empty() ? "" : ", or lower ", ways));
}

}  // namespace

CacheConfig CacheConfig::validated() const {
  check_fields(*this);
  CacheConfig c = *this;
  if (c.block_size_frames == 0) c.block_size_frames = c.chunk_size;
  check_prefill(c);
  check_table_width(c);
  if (c.max_num_blocks == 0) c.max_num_blocks = derived_pool(c);
  check_pool(c);
  c.max_batch_size = std::min(c.max_batch_size, c.max_streams);
  return c;
}

std::optional<int> CacheConfig::window_frames() const {
  if (!evicts()) return std::nullopt;
  return chunk_size * num_left_chunks;
}

std::optional<int> CacheConfig::max_logical_blocks() const {
  if (!evicts()) return std::nullopt;
  return static_cast<int>(ceil_div(int64_t{*window_frames()} + block_size_frames - 1, block_size_frames));
}

int CacheConfig::blocks_per_dispatch() const {
  return static_cast<int>(ceil_div(chunk_size, block_size_frames));
}

int64_t CacheConfig::min_blocks_per_stream() const {
  const int64_t history = evicts() ? *max_logical_blocks() : recycle_at_capacity ? 1 : 0;
  return history + blocks_per_dispatch();
}

int CacheConfig::blocks_per_stream() const {
  if (evicts()) return static_cast<int>(min_blocks_per_stream());
  return std::min(max_blocks_per_seq, max_num_blocks / max_streams);
}

int64_t CacheConfig::max_stream_frames() const {
  if (evicts() || recycles()) return std::numeric_limits<int64_t>::max();
  return int64_t{blocks_per_stream()} * block_size_frames;
}

std::string CacheConfig::ways_to_fit(int64_t blocks) const {
  std::string ways;
  const int64_t streams = blocks / min_blocks_per_stream();
  if (streams >= 1) ways = fmt::format("max_streams to {}", std::min<int64_t>(streams, max_streams));
  // The widest window that a stream's share holds at any offset of its oldest block.
  const int64_t history = blocks / max_streams - blocks_per_dispatch();
  const int64_t window = (history - 1) * block_size_frames + 1;
  if (evicts() && window >= 0) {
    const int64_t left = std::min<int64_t>(window / chunk_size, num_left_chunks);
    ways += fmt::format("{}num_left_chunks to {}", ways.empty() ? "" : " or ", left);
  }
  return ways;
}

}  // namespace tutti
