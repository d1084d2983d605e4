#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tutti {

/// Geometry and capacity of the streaming caches of one device.
///
/// A frame is one encoder output frame (40 ms for a 4x subsampled model). A *block* is `block_size_frames`
/// frames of one stream's keys and values, over all layers. The names are those of the reference's
/// CacheConfig; `max_streams` is its `max_batch_size` wherever memory is counted, because a core holds many
/// more streams than one tick has lanes.
struct CacheConfig {
  int num_layers = 12;
  int n_kv_head = 4;
  int head_dim = 64;
  int hidden_dim = 256;
  int kernel_size = 15;         ///< of the causal depthwise convolution
  int chunk_size = 16;          ///< frames of a full chunk
  int num_left_chunks = 4;      ///< chunks of history a chunk attends to; -1 = unlimited, 0 = none
  int block_size_frames = 0;    ///< 0 = chunk_size
  int max_num_blocks = 0;       ///< physical blocks; 0 = max_streams * blocks_per_stream()
  int max_blocks_per_seq = 512; ///< width of a block table row
  int max_streams = 32;         ///< slots: streams that hold caches at one time
  int max_batch_size = 8;       ///< lanes of one tick

  /// Fills the two derived fields left at 0 and refuses impossible geometries.
  /// Throws std::invalid_argument naming the field, its value and what is accepted.
  [[nodiscard]] CacheConfig validated() const;

  /// K and V are packed along the last axis in the dense form.
  [[nodiscard]] int kv_last_dim() const { return 2 * head_dim; }
  /// Left context of the causal depthwise convolution, per layer.
  [[nodiscard]] int cnn_cache_frames() const { return kernel_size - 1; }
  /// True when old history is dropped as the stream goes on.
  [[nodiscard]] bool evicts() const { return num_left_chunks >= 0; }
  /// Frames of history a chunk attends to; nullopt when unlimited.
  [[nodiscard]] std::optional<int> window_frames() const;
  /// Blocks that may hold retained history: ceil((chunk*left + block - 1) / block), because the oldest
  /// retained block may be partly outside the window; nullopt when unlimited.
  [[nodiscard]] std::optional<int> max_logical_blocks() const;
  /// Blocks one dispatch may add: ceil(chunk / block), plus nothing for the partly filled last one.
  [[nodiscard]] int blocks_per_dispatch() const;
  /// Blocks reserved for one stream at admission: history plus one dispatch, or, with unlimited history,
  /// its share min(max_blocks_per_seq, max_num_blocks / max_streams).
  [[nodiscard]] int blocks_per_stream() const;
  /// Frames after which a stream with unlimited history is at capacity.
  [[nodiscard]] int64_t max_stream_frames() const;
};

}  // namespace tutti
