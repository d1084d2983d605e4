#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tutti {

/// Geometry and capacity of the streaming caches of one device.
///
/// A frame is one encoder output frame (40 ms for a 4x subsampled model). A *block* is `block_size_frames`
/// frames of one stream's keys and values, over all layers; it may be smaller or larger than a chunk, because
/// blocks are allocated when a write crosses a block boundary. The names are those of the reference's
/// CacheConfig; `max_streams` is its `max_batch_size` wherever memory is counted, because a core holds many
/// more streams than one tick has lanes. Its device and dtype are what a BlockPool is made with.
struct CacheConfig {
  int num_layers = 12;
  int n_kv_head = 4;
  int head_dim = 64;
  int hidden_dim = 256;
  int kernel_size = 15;          ///< of the causal depthwise convolution
  int chunk_size = 16;           ///< frames of a full chunk
  int num_left_chunks = 4;       ///< chunks of history a chunk attends to; -1 = unlimited, 0 = none
  int block_size_frames = 0;     ///< 0 = chunk_size
  int max_num_blocks = 0;        ///< physical blocks; 0 = what max_streams streams need at most
  int max_blocks_per_seq = 512;  ///< the most blocks one stream's table may address
  int max_streams = 32;          ///< slots: streams that hold caches at one time
  int max_batch_size = 8;        ///< lanes of one tick
  /// Unlimited history only: a stream at its capacity drops its oldest block, and so never is.
  bool recycle_at_capacity = false;
  /// A stream starts with its whole window, zeroed, so that its cached length never changes. For an encoder
  /// whose attention span is part of what it was trained with. Needs num_left_chunks of at least 1.
  bool prefill_kv_window = false;

  /// Returns the configuration with the fields left at 0 filled in and max_batch_size lowered to max_streams
  /// (a lane more could never be used). Throws std::invalid_argument for an impossible geometry, naming the
  /// field, its value, what is accepted, and what else could be changed instead.
  [[nodiscard]] CacheConfig validated() const;

  // The values below are those of a validated configuration.

  /// K and V are packed along the last axis in the dense form.
  [[nodiscard]] int kv_last_dim() const { return 2 * head_dim; }
  /// Left context of the causal depthwise convolution, per layer.
  [[nodiscard]] int cnn_cache_frames() const { return kernel_size - 1; }
  /// True when history is a window: what leaves it is dropped.
  [[nodiscard]] bool evicts() const { return num_left_chunks >= 0; }
  /// True when history is all that fits: the oldest block makes way.
  [[nodiscard]] bool recycles() const { return !evicts() && recycle_at_capacity; }
  /// Frames of history a chunk attends to, chunk * left; nullopt when unlimited.
  [[nodiscard]] std::optional<int> window_frames() const;
  /// The most blocks that retained history can touch: ceil((chunk * left + block - 1) / block). The block - 1
  /// is there because the window begins at any offset of its oldest block. nullopt when unlimited.
  [[nodiscard]] std::optional<int> max_logical_blocks() const;
  /// The most blocks that one dispatch adds: ceil(chunk / block). Room left in the newest block only lowers
  /// it.
  [[nodiscard]] int blocks_per_dispatch() const;
  /// The fewest blocks with which a stream can always take its next chunk: history plus one dispatch. With
  /// unlimited history only the dispatch, and one partly written block when it recycles.
  [[nodiscard]] int64_t min_blocks_per_stream() const;
  /// Blocks reserved for one stream at admission: min_blocks_per_stream(). With unlimited history its share
  /// of the pool, min(max_blocks_per_seq, max_num_blocks / max_streams).
  [[nodiscard]] int blocks_per_stream() const;
  /// Frames that fill a stream's reservation: where a stream with unlimited history is at capacity. A stream
  /// that evicts or recycles never is: the largest int64_t.
  [[nodiscard]] int64_t max_stream_frames() const;

  /// What else could be lowered for a pool of `blocks` blocks to do, and to what: "max_streams to 10 or
  /// num_left_chunks to 2". Empty when nothing would help.
  [[nodiscard]] std::string ways_to_fit(int64_t blocks) const;
};

}  // namespace tutti
