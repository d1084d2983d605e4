#pragma once

#include <optional>
#include <vector>

namespace tutti {

/// Hands out the slots [0, max_streams) that address every fixed-extent cache.
class StreamSlotPool {
 public:
  explicit StreamSlotPool(int max_streams);
  /// The slot freed last, so that a lightly loaded device keeps touching the same memory; nullopt when full.
  [[nodiscard]] std::optional<int> allocate();
  /// Throws std::invalid_argument for a slot that is out of range or already free.
  void free(int slot);
  [[nodiscard]] int num_free() const { return static_cast<int>(free_.size()); }
  [[nodiscard]] int capacity() const { return static_cast<int>(taken_.size()); }

 private:
  std::vector<int> free_;
  std::vector<bool> taken_;
};

}  // namespace tutti
