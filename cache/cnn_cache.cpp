#include "cache/cnn_cache.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace tutti {

namespace {

constexpr auto state_name = "cnn_cache";

StreamStateSpec left_context(const CacheConfig& config) {
  return {.name = state_name,
          .shape = {config.num_layers, config.cnn_cache_frames(), config.hidden_dim},
          .slot_axis = 1};
}

}  // namespace

CnnCacheManager::CnnCacheManager(const CacheConfig& config, Ops& ops, int scratch_slots)
    : states_({left_context(config.validated())}, config.validated().max_streams, scratch_slots, ops) {}

TensorView CnnCacheManager::layer(int layer) const {
  const TensorView buffer = states_.buffer(0);
  if (layer < 0 || layer >= buffer.shape[0]) {
    throw std::out_of_range(
        fmt::format("CnnCacheManager::layer: layer {}, expected one of [0, {})", layer, buffer.shape[0]));
  }
  return buffer[layer];
}

void CnnCacheManager::read(int32_t slot, const TensorView& out) const {
  states_.lanes({&slot, 1})[state_name].gather(out);
}

void CnnCacheManager::update(int32_t slot, const TensorView& values) {
  states_.lanes({&slot, 1})[state_name].scatter(values);
}

}  // namespace tutti
