#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/block_pool.hpp"
#include "cache/errors.hpp"
#include "cache/paged_kv_cache.hpp"
#include "cache/stream_index.hpp"

namespace tutti {

/// Logical-to-physical block mapping of every stream. Paged: prepare, let the model write, commit. Dense:
/// commit packed K and V, read them back in one piece.
///
/// A stream's logical blocks are consecutive; block 0 holds its oldest retained frame at offset
/// `cache_begin`. `cached_frames` counts the frames inside the window: exactly min(committed, chunk * left),
/// and with prefill_kv_window always chunk * left. A block is freed once all of it is outside. Eviction never
/// moves K or V, only the table (a left shift, as a reader sees it). A partly written last block stays, and
/// the next chunk goes on in it, even when left = 0 puts every frame in it outside the window: `cache_begin`
/// then advances through the block. A stream that recycles drops whole blocks, the oldest first, as soon as
/// its next full chunk would pass its share.
///
/// Admission reserves blocks_per_stream(), so prepare cannot run out for an admitted stream as long as nobody
/// else allocates from the pool. Nothing of the paged form allocates memory after construction.
class AttentionCacheManager {
 public:
  /// Pad lanes are table rows that no stream can have: they point only at the pool's scratch blocks, at the
  /// cached length that every stream starts with.
  /// Throws std::invalid_argument for a config that does not validate, whose block size is not the pool's,
  /// for a pool in fp8_e4m3, which only a decoder's attention reads, or for pad lanes over one without
  /// scratch blocks.
  AttentionCacheManager(BlockPool& pool, const CacheConfig& config, int pad_lanes = 0);

  /// Whether one more stream's blocks can be reserved: bounded history whole, or its share of the pool.
  [[nodiscard]] bool can_admit() const;
  /// Throws std::invalid_argument for a duplicate, PoolExhausted when can_admit() is false.
  void allocate_stream(StreamId id);
  /// Every function that takes an id from here on throws UnknownStream for one that is not allocated.
  void free_stream(StreamId id);
  /// Back to the history of a stream just allocated; the reservation stays.
  void reset_stream(StreamId id);

  /// Allocates the blocks that the write range [end, end + frames) needs and does not have yet. Calling it
  /// again before the commit is legal and idempotent for the same or fewer frames. Throws
  /// std::invalid_argument unless 1 <= frames <= chunk_size, std::logic_error at capacity.
  void prepare_chunk(StreamId id, int frames);
  /// One pool allocation for all lanes. Throws as prepare_chunk, and std::invalid_argument when a stream
  /// comes twice or the spans differ in length. Changes nothing when it throws.
  void prepare_chunks_batched(std::span<const StreamId> ids, std::span<const int> frames);

  /// The prepared lanes as one batch, and `padding` pad lanes behind them. Throws std::logic_error for a lane
  /// that was not prepared, and std::invalid_argument when a stream comes twice, the batch has not the size
  /// for these lanes, or padding is asked for without pad lanes.
  void fill_batch(std::span<const StreamId> ids, PagedKvCache& batch, int padding = 0) const;

  /// What a kernel reads of one stream: the views of a batch of one.
  struct PagedStateViews {
    std::span<const int32_t> block_table;    ///< table_width() entries, 0 past the stream's blocks
    std::span<const int32_t> cache_seqlens;  ///< 1 entry: cached_frames
    std::span<const int32_t> cache_begin;    ///< 1 entry
  };
  /// Valid until the stream changes. Throws std::logic_error when no chunk is prepared.
  [[nodiscard]] PagedStateViews get_paged_state_views(StreamId id) const;
  /// One layer of a batch of one. Throws as get_paged_state_views, and std::out_of_range for a layer that the
  /// model does not have.
  [[nodiscard]] PagedKv get_paged_cache(StreamId id, int layer) const;

  /// Counts the frames the model wrote, then evicts. Committing fewer than were prepared is legal in
  /// mid-stream (0 abandons the chunk): blocks that only the surplus needed are freed. Throws
  /// std::logic_error when more are committed than were prepared, std::invalid_argument for a negative count.
  void commit_chunk_paged(StreamId id, int frames);

  /// Dense form of prepare, write, commit. `packed` is (layers, n_kv_head, frames, kv_last_dim), K before V
  /// on the last axis, in host memory and of the pool's type. Throws std::invalid_argument for another shape
  /// or type and for more frames than a block has, and what prepare_chunk throws.
  void commit(StreamId id, const TensorView& packed);
  /// The stream's window as one (layers, n_kv_head, cached_frames, kv_last_dim) tensor in host memory.
  [[nodiscard]] Tensor get_stacked_cache(StreamId id) const;

  /// Where a stream's history stands, beside the K and V that its blocks hold.
  struct History {
    int64_t committed = 0;  ///< committed_frames
    int32_t cached = 0;     ///< cached_frames
    int32_t begin = 0;      ///< cache_begin
  };
  /// Throws std::logic_error while a chunk is prepared.
  [[nodiscard]] History history(StreamId id) const;
  /// Gives a stream the history of another one, in blocks whose K and V are then to be written: those of its
  /// block_table(), in the same order as the other's. Throws std::invalid_argument for a history that no
  /// stream of this geometry can have.
  void restore_history(StreamId id, const History& history);

  /// Unlimited history only: whether the next full chunk would pass blocks_per_stream().
  [[nodiscard]] bool at_capacity(StreamId id) const;
  /// Frames inside the window.
  [[nodiscard]] int cached_frames(StreamId id) const;
  /// The longest among several streams; 0 of none.
  [[nodiscard]] int cached_frames(std::span<const StreamId> ids) const;
  /// Frames of logical block 0 that are outside the window, in [0, block size).
  [[nodiscard]] int cache_begin(StreamId id) const;
  /// Since the stream's allocation or last reset.
  [[nodiscard]] int64_t committed_frames(StreamId id) const;
  /// Physical blocks in logical order, those of a prepared chunk included. Valid until the stream changes.
  [[nodiscard]] std::span<const int32_t> block_table(StreamId id) const;
  /// Entries of a table row: blocks_per_stream().
  [[nodiscard]] int table_width() const { return blocks_per_stream_; }
  [[nodiscard]] int num_streams() const { return index_.size(); }
  [[nodiscard]] int pad_lanes() const { return pad_lanes_; }
  /// Blocks promised to the admitted streams, whether or not they hold them yet.
  [[nodiscard]] int reserved_blocks() const { return num_streams() * blocks_per_stream_; }

 private:
  struct State {
    int64_t committed = 0;
    int32_t cached = 0;  // frames inside the window
    int32_t begin = 0;   // frames of logical block 0 outside the window
    int num_blocks = 0;  // in the table row
    int prepared = 0;    // frames that may be written behind those cached
  };

  [[nodiscard]] const State& state(const char* where, StreamId id) const;
  [[nodiscard]] const State& prepared_state(const char* where, StreamId id, int row) const;
  [[nodiscard]] std::span<const int> rows_of(const char* where, std::span<const StreamId> ids) const;
  [[nodiscard]] std::span<const int32_t> table(int row) const;
  [[nodiscard]] std::span<int32_t> table(int row);
  [[nodiscard]] std::span<int32_t> blocks(int row);
  [[nodiscard]] int blocks_for(const State& s, int frames) const;
  [[nodiscard]] int missing_blocks(const char* where, StreamId id, const State& s, int frames) const;
  void give_blocks(int row, std::span<const int32_t> blocks);
  void begin_history(int row);
  [[nodiscard]] int frames_outside(const State& s) const;
  void evict(int row);
  void free_all_blocks(int row);
  void make_pad_lanes();

  BlockPool& pool_;
  CacheConfig config_;
  int blocks_per_stream_;
  int pad_lanes_;
  StreamIndex index_;               // stream -> its state and table row
  std::vector<State> states_;       // (max_streams + pad_lanes)
  std::vector<int32_t> tables_;     // (max_streams + pad_lanes, blocks_per_stream), 0 past a row's blocks
  std::vector<int32_t> allocated_;  // what one batched prepare takes from the pool
  // Of one call over several streams: their rows, and per row the last call that saw it.
  mutable std::vector<int> lane_rows_;
  mutable std::vector<uint64_t> seen_in_;
  mutable uint64_t call_ = 0;
};

}  // namespace tutti
