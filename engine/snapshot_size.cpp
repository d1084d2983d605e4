#include "engine/snapshot_size.hpp"

#include "cache/block_pool.hpp"
#include "decode/ctc_decoder.hpp"

namespace tutti {

SnapshotSize snapshot_size(const CacheConfig& cache, const ConformerCtc& model, const EngineConfig& config) {
  const ConformerSpec& spec = model.spec();
  const int64_t convolution = int64_t{cache.num_layers} * cache.cnn_cache_frames() * cache.hidden_dim;
  const int64_t features =
      int64_t{ConformerCtc::geometry(cache.chunk_size).overlap()} * spec.fbank.num_mel_bins;
  const int64_t rescorable =
      config.decoder == "rescore" ? int64_t{config.max_rescored_frames} * spec.output_size : 0;
  // Of the decoder, and of the last partial.
  const auto tokens = 2 * int64_t{config.max_segment_tokens} * static_cast<int64_t>(sizeof(CtcToken));
  return {
      .block = bytes_per_kv_block(cache, DType::f32),
      .stream = (convolution + features + rescorable) * static_cast<int64_t>(sizeof(float)) + tokens,
  };
}

}  // namespace tutti
