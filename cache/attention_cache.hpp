#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "cache/block_pool.hpp"
#include "cache/errors.hpp"
#include "cache/paged_kv_cache.hpp"

namespace tutti {

/// Logical-to-physical block mapping of every stream, in paged mode: prepare, let the model write, commit.
///
/// A stream's logical blocks are consecutive; block 0 holds its oldest retained frame at offset `cache_begin`.
/// `cached_frames` counts the frames inside the window: exactly min(committed, chunk * left). A block is freed
/// once all of it is outside. Eviction never moves K or V, only the table (a left shift, as a reader sees it).
///
/// Admission reserves blocks_per_stream(), so prepare cannot run out for an admitted stream.
/// Every function that takes a StreamId throws UnknownStream for one that is not allocated.
class AttentionCacheManager {
 public:
  AttentionCacheManager(BlockPool& pool, const CacheConfig& config);

  /// Whether one more stream's whole bounded history can be reserved.
  [[nodiscard]] bool can_admit() const;
  /// Throws std::invalid_argument for a duplicate, PoolExhausted when can_admit() is false.
  void allocate_stream(StreamId id);
  void free_stream(StreamId id);
  /// Back to an empty history; the reservation stays.
  void reset_stream(StreamId id);

  /// Allocates the blocks that the write range [end, end + frames) needs and does not have yet. Calling it again
  /// before the commit is legal and idempotent for the same or fewer frames.
  /// Throws std::invalid_argument unless 1 <= frames <= chunk_size, std::logic_error at capacity.
  void prepare_chunk(StreamId id, int frames);
  /// One pool allocation for all lanes. Throws as prepare_chunk, and changes nothing when it throws.
  void prepare_chunks_batched(std::span<const StreamId> ids, std::span<const int> frames);

  /// The prepared lanes as one batch. Throws std::logic_error for a lane that was not prepared.
  void fill_batch(std::span<const StreamId> ids, PagedKvCache& batch) const;

  /// Counts the frames the model wrote, then evicts. Throws std::logic_error when more are committed than were
  /// prepared.
  void commit_chunk_paged(StreamId id, int frames);

  /// Unlimited history only: whether the next full chunk would pass blocks_per_stream().
  [[nodiscard]] bool at_capacity(StreamId id) const;
  /// Frames inside the window.
  [[nodiscard]] int cached_frames(StreamId id) const;
  [[nodiscard]] int cache_begin(StreamId id) const;
  [[nodiscard]] int64_t committed_frames(StreamId id) const;
  [[nodiscard]] std::span<const int32_t> block_table(StreamId id) const;
  [[nodiscard]] int table_width() const;
  [[nodiscard]] int num_streams() const { return static_cast<int>(index_.size()); }

 private:
  struct State;
  [[nodiscard]] State& state(const char* where, StreamId id);
  [[nodiscard]] const State& state(const char* where, StreamId id) const;

  BlockPool& pool_;
  CacheConfig config_;
  std::vector<State> states_;  // max_streams, reused
  std::vector<int> free_states_;
  std::unordered_map<StreamId, int> index_;
};

}  // namespace tutti
