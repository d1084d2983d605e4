#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/cnn_cache.hpp"
#include "cache/paged_kv_cache.hpp"
#include "config/cache_config.hpp"
#include "decode/text.hpp"
#include "gpu/ops.hpp"
#include "model/attention_decoder.hpp"
#include "model/checkpoint.hpp"
#include "model/encoder_workspace.hpp"
#include "model/streaming_geometry.hpp"

namespace tutti {

/// One batch of chunks, lane by lane.
struct ChunkBatch {
  std::span<const float* const> features;   ///< feature_frames[lane] x mel each
  std::span<const int32_t> feature_frames;  ///< from min_frames to window
  std::span<const int32_t> slots;           ///< conv-cache slot
  std::span<const int32_t> first_position;  ///< position of the first new frame
};

/// Rows are packed as in `layout`. The views are valid until the workspace's next forward.
struct EncoderOutput {
  BatchLayout layout;
  TensorView encoder_out;    ///< (rows, D), after after_norm
  TensorView log_probs;      ///< (rows, V)
  TensorView top_ids;        ///< (rows, k) i32
  TensorView top_log_probs;  ///< (rows, k)
};

/// Receives intermediate results by name ("block0.norm_mha_out"). Observation never changes what is computed.
using Probe = std::function<void(std::string_view name, const TensorView& rows)>;

/// Streaming Conformer encoder with a CTC head (WeNet U2 / U2++), written against Ops. Weights are immutable
/// and shared by every owner that can read them: those of all CPU cores, or of one GPU.
class ConformerCtc {
 public:
  /// Packs the weights through `ops`. Positions below `max_positions` can be addressed. The attention
  /// decoders are loaded when hypotheses of up to `max_hypothesis_tokens` are to be rescored; 0 is without.
  /// `identity` is the same for what was made of the same checkpoint, on another device or another time;
  /// empty is like no other. Throws SetupError for missing or misshapen tensors, or when there are no
  /// decoders to load.
  ConformerCtc(Checkpoint checkpoint, Ops& ops, int max_positions, int max_hypothesis_tokens = 0,
               std::string identity = {});
  ~ConformerCtc();

  [[nodiscard]] const std::string& name() const;
  /// Whether a stream of one can go on with the other: it is that one, or has its identity.
  [[nodiscard]] bool is_same_model(const ConformerCtc& other) const;
  [[nodiscard]] const ConformerSpec& spec() const;
  [[nodiscard]] const TokenTable& tokens() const;
  [[nodiscard]] const PackedFbank& fbank() const;
  [[nodiscard]] static StreamingGeometry geometry(int chunk_size);
  [[nodiscard]] int max_positions() const;
  /// Null unless they were asked for.
  [[nodiscard]] const AttentionDecoders* decoders() const;
  /// Keys of the checkpoint that this model has no use for.
  [[nodiscard]] const std::vector<std::string>& unused_weights() const;

  /// The model's part of a cache geometry; history, capacity and lanes are the caller's.
  [[nodiscard]] CacheConfig cache_config() const;

  /// Activations for up to `lanes` chunks of `chunk_size` frames, with the `top_k` best tokens per frame;
  /// reserves the scratch memory of `ops` for them.
  [[nodiscard]] EncoderWorkspace make_workspace(Ops& ops, int chunk_size, int lanes, int top_k) const;

  /// Appends the lanes' K and V to the paged cache, updates the conv caches of their slots, and returns views
  /// into the workspace.
  EncoderOutput forward(Ops& ops, EncoderWorkspace& workspace, const ChunkBatch& batch,
                        const PagedKvCache& kv, const CnnCacheManager& cnn,
                        const Probe* probe = nullptr) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
