#include "cache/stream_slot_pool.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace tutti {

StreamSlotPool::StreamSlotPool(int max_streams) {
  if (max_streams < 1) {
    throw std::invalid_argument(
        fmt::format("StreamSlotPool: max_streams = {}, expected at least 1", max_streams));
  }
  taken_.resize(static_cast<size_t>(max_streams));
  free_.reserve(taken_.size());
  for (int slot = max_streams - 1; slot >= 0; --slot) free_.push_back(slot);
}

std::optional<int> StreamSlotPool::allocate() {
  if (free_.empty()) return std::nullopt;
  const int slot = free_.back();
  free_.pop_back();
  taken_[static_cast<size_t>(slot)] = true;
  return slot;
}

void StreamSlotPool::free(int slot) {
  if (slot < 0 || slot >= capacity()) {
    throw std::invalid_argument(
        fmt::format("StreamSlotPool::free: slot {}, expected one of [0, {})", slot, capacity()));
  }
  if (!taken_[static_cast<size_t>(slot)]) {
    throw std::invalid_argument(fmt::format("StreamSlotPool::free: slot {} is already free", slot));
  }
  taken_[static_cast<size_t>(slot)] = false;
  free_.push_back(slot);
}

}  // namespace tutti
