#pragma once

#include "cache/errors.hpp"
#include "config/cache_config.hpp"
#include "gpu/ops.hpp"

namespace tutti {

/// Left context of the causal depthwise convolutions: the last K-1 inputs of each layer's pointwise_conv1, laid
/// out (layers, slots, K-1, D). Addressed by slot and updated in place by the forward pass. A slot is zeroed
/// when it is given to a stream: zeros before pointwise_conv1 are the padding that an offline pass applies.
class CnnCacheManager {
 public:
  CnnCacheManager(const CacheConfig& config, Ops& ops);

  /// Zeroes the slot. Throws std::invalid_argument when it is taken or out of range.
  void allocate_stream(int slot);
  void reset_stream(int slot);
  void free_stream(int slot);

  /// (slots, K-1, D) of one layer.
  [[nodiscard]] TensorView layer(int layer) const;
  /// Copies one stream's cache, (layers, K-1, D) f32. Throws std::invalid_argument on another size.
  void read(int slot, std::span<float> out) const;
  void update(int slot, std::span<const float> values);
};

}  // namespace tutti
