#pragma once

#include "cache/slot_state.hpp"
#include "config/cache_config.hpp"

namespace tutti {

/// Left context of the causal depthwise convolutions: the last K-1 inputs of each layer's pointwise_conv1,
/// f32, laid out (layers, slots, K-1, D). The SlotStateCache of this one declaration, which the forward pass
/// updates in place. Zeros before pointwise_conv1 are the padding that an offline pass applies.
class CnnCacheManager {
 public:
  /// Throws std::invalid_argument for a config that does not validate.
  CnnCacheManager(const CacheConfig& config, Ops& ops, int scratch_slots = 0);

  /// As SlotStateCache's.
  void allocate_stream(int slot) { states_.allocate_stream(slot); }
  void reset_stream(int slot) { states_.reset_stream(slot); }
  void free_stream(int slot) { states_.free_stream(slot); }
  [[nodiscard]] int scratch_slot(int i = 0) const { return states_.scratch_slot(i); }

  /// (slots, K-1, D) of one layer, scratch slots included. Throws std::out_of_range for a layer the model
  /// does not have.
  [[nodiscard]] TensorView layer(int layer) const;
  /// Copies one stream's cache, (layers, 1, K-1, D). Throws UnknownStream, and std::invalid_argument for
  /// another shape.
  void read(int32_t slot, const TensorView& out) const;
  void update(int32_t slot, const TensorView& values);

 private:
  SlotStateCache states_;
};

}  // namespace tutti
