#include "cache/cnn_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace tutti {

CnnCacheManager::CnnCacheManager(const CacheConfig& config, Ops& ops)
    : config_(config.validated()),
      buffer_(ops.allocate(DType::f32, {config_.num_layers, config_.max_streams, config_.cnn_cache_frames(),
                                        config_.hidden_dim})),
      taken_(static_cast<size_t>(config_.max_streams)) {}

void CnnCacheManager::allocate_stream(int slot) {
  constexpr auto where = "CnnCacheManager::allocate_stream";
  if (slot < 0 || slot >= config_.max_streams) {
    throw std::invalid_argument(
        fmt::format("{}: slot {}, expected one of [0, {})", where, slot, config_.max_streams));
  }
  if (taken_[static_cast<size_t>(slot)]) {
    throw std::invalid_argument(fmt::format("{}: slot {} is already allocated", where, slot));
  }
  zero(slot);
  taken_[static_cast<size_t>(slot)] = true;
}

void CnnCacheManager::reset_stream(int slot) {
  require_allocated("CnnCacheManager::reset_stream", slot);
  zero(slot);
}

void CnnCacheManager::free_stream(int slot) {
  require_allocated("CnnCacheManager::free_stream", slot);
  taken_[static_cast<size_t>(slot)] = false;
}

TensorView CnnCacheManager::layer(int layer) const {
  if (layer < 0 || layer >= config_.num_layers) {
    throw std::out_of_range(
        fmt::format("CnnCacheManager::layer: layer {}, expected one of [0, {})", layer, config_.num_layers));
  }
  return buffer_.view()[layer];
}

void CnnCacheManager::read(int slot, std::span<float> out) const {
  require_allocated("CnnCacheManager::read", slot);
  require_size("CnnCacheManager::read", out.size());
  auto end = out.begin();
  for (int l = 0; l < config_.num_layers; ++l) end = std::ranges::copy(context(l, slot), end).out;
}

void CnnCacheManager::update(int slot, std::span<const float> values) {
  require_allocated("CnnCacheManager::update", slot);
  require_size("CnnCacheManager::update", values.size());
  for (int l = 0; l < config_.num_layers; ++l) {
    const auto layer_context = context(l, slot);
    std::ranges::copy(values.first(layer_context.size()), layer_context.begin());
    values = values.subspan(layer_context.size());
  }
}

std::span<float> CnnCacheManager::context(int layer_index, int slot) const {
  const TensorView view = layer(layer_index)[slot];
  return {view.f32(), static_cast<size_t>(view.shape.elements())};
}

void CnnCacheManager::zero(int slot) {
  for (int l = 0; l < config_.num_layers; ++l) std::ranges::fill(context(l, slot), 0.0F);
}

void CnnCacheManager::require_allocated(const char* where, int slot) const {
  const bool allocated = slot >= 0 && slot < config_.max_streams && taken_[static_cast<size_t>(slot)];
  if (!allocated) throw UnknownStream(where, slot, "slot");
}

void CnnCacheManager::require_size(const char* where, size_t actual) const {
  const Shape expected{config_.num_layers, config_.cnn_cache_frames(), config_.hidden_dim};
  if (actual == static_cast<size_t>(expected.elements())) return;
  throw std::invalid_argument(fmt::format("{}: {} values, expected {} ({})", where, actual,
                                          expected.elements(), to_string(expected)));
}

}  // namespace tutti
