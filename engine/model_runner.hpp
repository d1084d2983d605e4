#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cache/stream_cache_view.hpp"
#include "model/conformer.hpp"

namespace tutti {

/// One stream's share of a batched forward.
struct ChunkLane {
  StreamId id = 0;
  int slot = 0;
  const float* features = nullptr;  ///< feature_frames x mel
  int feature_frames = 0;
  int first_position = 0;
};

/// `cache` with the model's layers, heads and widths.
[[nodiscard]] CacheConfig with_model_geometry(CacheConfig cache, const ConformerCtc& model);

/// A model with the caches of one device: prepare, forward, commit, for a batch of lanes at any offsets.
class ModelRunner {
 public:
  /// What keys and values are stored in.
  static constexpr DType kv_dtype = DType::f32;

  /// `cache` needs the history, capacity and lane fields; the model's geometry is filled in. Throws
  /// std::invalid_argument for a geometry that does not fit.
  ModelRunner(std::shared_ptr<const ConformerCtc> model, std::unique_ptr<Ops> ops, CacheConfig cache,
              std::unique_ptr<const CtcDecoder> decoder);

  /// At most max_batch_size lanes, each stream at most once. The output is valid until the next call; of its
  /// best tokens it has what the decoder is to be given (CtcDecoder::begin_chunks). Where the device gains by
  /// it, a batch of full chunks is padded to a power of two with lanes that no stream has.
  EncoderOutput forward(std::span<const ChunkLane> lanes, const Probe* probe = nullptr);
  /// Passes of every width that is padded, with no stream in them, so that the device has made and recorded
  /// what it repeats later. Nothing where it pads none.
  void warm_up();

  [[nodiscard]] StreamCacheView view(StreamId id, int slot) { return {id, slot, attention_, cnn_, ctc_}; }
  [[nodiscard]] const ConformerCtc& model() const { return *model_; }
  [[nodiscard]] const std::shared_ptr<const ConformerCtc>& shared_model() const { return model_; }
  [[nodiscard]] Ops& ops() { return *ops_; }
  [[nodiscard]] const Ops& ops() const { return *ops_; }
  /// Of the output's best tokens.
  [[nodiscard]] int top_k() const { return workspace_.top_k; }
  [[nodiscard]] const BlockPool& pool() const { return pool_; }
  [[nodiscard]] BlockPool& pool() { return pool_; }
  [[nodiscard]] AttentionCacheManager& attention() { return attention_; }
  [[nodiscard]] const AttentionCacheManager& attention() const { return attention_; }
  [[nodiscard]] CnnCacheManager& cnn() { return cnn_; }
  [[nodiscard]] const CacheConfig& cache_config() const { return pool_.config(); }

 private:
  [[nodiscard]] int padded_lanes(int lanes) const;
  void add_padding(int lanes);
  void take(std::span<const ChunkLane> lanes);
  EncoderOutput pass(int padding, bool repeats, const Probe* probe);

  std::shared_ptr<const ConformerCtc> model_;
  std::unique_ptr<Ops> ops_;
  int most_padded_;
  BlockPool pool_;
  AttentionCacheManager attention_;
  CnnCacheManager cnn_;
  CtcStateCacheManager ctc_;
  PagedKvCache batch_;
  EncoderWorkspace workspace_;
  Tensor blank_window_;  // (window, mel), of lanes that only pad
  // The lanes of one batch, field by field, as the managers and the model take them.
  std::vector<StreamId> ids_;
  std::vector<int> frames_;
  std::vector<const float*> features_;
  std::vector<int32_t> feature_frames_;
  std::vector<int32_t> slots_;
  std::vector<int32_t> first_position_;
};

}  // namespace tutti
