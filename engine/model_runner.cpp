#include "engine/model_runner.hpp"

#include <utility>

namespace tutti {

CacheConfig with_model_geometry(CacheConfig cache, const ConformerCtc& model) {
  const CacheConfig geometry = model.cache_config();
  cache.num_layers = geometry.num_layers;
  cache.n_kv_head = geometry.n_kv_head;
  cache.head_dim = geometry.head_dim;
  cache.hidden_dim = geometry.hidden_dim;
  cache.kernel_size = geometry.kernel_size;
  return cache;
}

ModelRunner::ModelRunner(std::shared_ptr<const ConformerCtc> model, std::unique_ptr<Ops> ops,
                         CacheConfig cache, std::unique_ptr<const CtcDecoder> decoder)
    : model_(std::move(model)),
      ops_(std::move(ops)),
      pool_(with_model_geometry(cache, *model_), *ops_, kv_dtype),
      attention_(pool_, pool_.config()),
      cnn_(pool_.config(), *ops_),
      ctc_(std::move(decoder), pool_.config().max_streams),
      batch_(pool_, pool_.config().max_batch_size, attention_.table_width()),
      workspace_(model_->make_workspace(*ops_, cache.chunk_size, pool_.config().max_batch_size,
                                        ctc_.decoder().top_k())) {
  const auto lanes = static_cast<size_t>(pool_.config().max_batch_size);
  ids_.reserve(lanes);
  frames_.reserve(lanes);
  features_.reserve(lanes);
  feature_frames_.reserve(lanes);
  slots_.reserve(lanes);
  first_position_.reserve(lanes);
}

EncoderOutput ModelRunner::forward(std::span<const ChunkLane> lanes, const Probe* probe) {
  ids_.clear();
  frames_.clear();
  features_.clear();
  feature_frames_.clear();
  slots_.clear();
  first_position_.clear();
  for (const ChunkLane& lane : lanes) {
    ids_.push_back(lane.id);
    frames_.push_back(StreamingGeometry::encoder_frames(lane.feature_frames));
    features_.push_back(lane.features);
    feature_frames_.push_back(lane.feature_frames);
    slots_.push_back(lane.slot);
    first_position_.push_back(lane.first_position);
  }
  attention_.prepare_chunks_batched(ids_, frames_);
  attention_.fill_batch(ids_, batch_);
  const EncoderOutput out = model_->forward(*ops_, workspace_,
                                            {.features = features_,
                                             .feature_frames = feature_frames_,
                                             .slots = slots_,
                                             .first_position = first_position_},
                                            batch_, cnn_, probe);
  for (size_t i = 0; i < ids_.size(); ++i) attention_.commit_chunk_paged(ids_[i], frames_[i]);
  return out;
}

}  // namespace tutti
