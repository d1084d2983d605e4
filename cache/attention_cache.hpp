#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/block_pool.hpp"
#include "cache/errors.hpp"
#include "cache/paged_kv_cache.hpp"
#include "cache/stream_index.hpp"

namespace tutti {

/// Logical-to-physical block mapping of every stream, in paged mode: prepare, let the model write, commit.
///
/// A stream's logical blocks are consecutive; block 0 holds its oldest retained frame at offset
/// `cache_begin`. `cached_frames` counts the frames inside the window: exactly min(committed, chunk * left).
/// A block is freed once all of it is outside. Eviction never moves K or V, only the table (a left shift, as
/// a reader sees it). A partly written last block stays, and the next chunk goes on in it, even when left = 0
/// puts every frame in it outside the window: `cache_begin` then advances through the block.
///
/// Admission reserves blocks_per_stream(), so prepare cannot run out for an admitted stream as long as nobody
/// else allocates from the pool. Nothing allocates memory after construction.
class AttentionCacheManager {
 public:
  /// Throws std::invalid_argument for a config that does not validate, or whose block size is not the pool's,
  /// and for a pool in fp8_e4m3, which only a decoder's attention reads.
  AttentionCacheManager(BlockPool& pool, const CacheConfig& config);

  /// Whether one more stream's blocks can be reserved: bounded history whole, or its share of the pool.
  [[nodiscard]] bool can_admit() const;
  /// Throws std::invalid_argument for a duplicate, PoolExhausted when can_admit() is false.
  void allocate_stream(StreamId id);
  /// Every function that takes an id from here on throws UnknownStream for one that is not allocated.
  void free_stream(StreamId id);
  /// Back to an empty history; the reservation stays.
  void reset_stream(StreamId id);

  /// Allocates the blocks that the write range [end, end + frames) needs and does not have yet. Calling it
  /// again before the commit is legal and idempotent for the same or fewer frames. Throws
  /// std::invalid_argument unless 1 <= frames <= chunk_size, std::logic_error at capacity.
  void prepare_chunk(StreamId id, int frames);
  /// One pool allocation for all lanes. Throws as prepare_chunk, and std::invalid_argument when a stream
  /// comes twice or the spans differ in length. Changes nothing when it throws.
  void prepare_chunks_batched(std::span<const StreamId> ids, std::span<const int> frames);

  /// The prepared lanes as one batch. Throws std::logic_error for a lane that was not prepared, and
  /// std::invalid_argument when a stream comes twice or the batch has not the size for these lanes.
  void fill_batch(std::span<const StreamId> ids, PagedKvCache& batch) const;

  /// Counts the frames the model wrote, then evicts. Committing fewer than were prepared is legal in
  /// mid-stream (0 abandons the chunk): blocks that only the surplus needed are freed. Throws
  /// std::logic_error when more are committed than were prepared, std::invalid_argument for a negative count.
  void commit_chunk_paged(StreamId id, int frames);

  /// Unlimited history only: whether the next full chunk would pass blocks_per_stream().
  [[nodiscard]] bool at_capacity(StreamId id) const;
  /// Frames inside the window.
  [[nodiscard]] int cached_frames(StreamId id) const;
  /// Frames of logical block 0 that are outside the window, in [0, block size).
  [[nodiscard]] int cache_begin(StreamId id) const;
  /// Since the stream's allocation or last reset.
  [[nodiscard]] int64_t committed_frames(StreamId id) const;
  /// Physical blocks in logical order, those of a prepared chunk included. Valid until the stream changes.
  [[nodiscard]] std::span<const int32_t> block_table(StreamId id) const;
  /// Entries of a table row: blocks_per_stream().
  [[nodiscard]] int table_width() const { return blocks_per_stream_; }
  [[nodiscard]] int num_streams() const { return index_.size(); }
  /// Blocks promised to the admitted streams, whether or not they hold them yet.
  [[nodiscard]] int reserved_blocks() const { return num_streams() * blocks_per_stream_; }

 private:
  struct State {
    int64_t committed = 0;
    int num_blocks = 0;  // in the table row
    int begin = 0;       // frames of logical block 0 outside the window
    int cached = 0;      // frames inside the window
    int prepared = 0;    // frames that may be written behind them
  };

  [[nodiscard]] const State& state(const char* where, StreamId id) const;
  [[nodiscard]] size_t row_begin(int index) const;
  [[nodiscard]] size_t row_size(int index) const;
  [[nodiscard]] std::span<int32_t> row(int index);
  [[nodiscard]] int blocks_for(const State& s, int frames) const;
  [[nodiscard]] int missing_blocks(const char* where, StreamId id, const State& s, int frames) const;
  void give_missing_blocks(int index, int frames, std::span<const int32_t>& blocks);
  void evict(int index);
  void free_all_blocks(int index);

  BlockPool& pool_;
  CacheConfig config_;
  int blocks_per_stream_;
  StreamIndex index_;               // stream -> its state and table row
  std::vector<State> states_;       // (max_streams)
  std::vector<int32_t> tables_;     // (max_streams, blocks_per_stream)
  std::vector<int32_t> allocated_;  // what one batched prepare takes from the pool
};

}  // namespace tutti
