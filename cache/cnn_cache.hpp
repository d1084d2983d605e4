#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/errors.hpp"
#include "config/cache_config.hpp"
#include "gpu/ops.hpp"

namespace tutti {

/// Left context of the causal depthwise convolutions: the last K-1 inputs of each layer's pointwise_conv1,
/// f32, laid out (layers, slots, K-1, D). Addressed by slot and updated in place by the forward pass. A slot
/// is zeroed when it is given to a stream: zeros before pointwise_conv1 are the padding that an offline pass
/// applies.
class CnnCacheManager {
 public:
  /// Throws std::invalid_argument for a config that does not validate.
  CnnCacheManager(const CacheConfig& config, Ops& ops);

  /// Zeroes the slot. Throws std::invalid_argument when it is taken or out of range.
  void allocate_stream(int slot);
  /// Zeroes the slot. Throws UnknownStream for a slot that is not allocated, as every function below that
  /// takes one.
  void reset_stream(int slot);
  void free_stream(int slot);

  /// (slots, K-1, D) of one layer. Throws std::out_of_range for a layer the model does not have.
  [[nodiscard]] TensorView layer(int layer) const;
  /// Copies one stream's cache, (layers, K-1, D). Throws std::invalid_argument on another size.
  void read(int slot, std::span<float> out) const;
  void update(int slot, std::span<const float> values);

 private:
  [[nodiscard]] std::span<float> context(int layer, int slot) const;
  void zero(int slot);
  void require_allocated(const char* where, int slot) const;
  void require_size(const char* where, size_t actual) const;

  CacheConfig config_;
  Tensor buffer_;  // (layers, slots, K-1, D)
  std::vector<bool> taken_;
};

}  // namespace tutti
