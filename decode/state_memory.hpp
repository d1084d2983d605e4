#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "gpu/ctc_state.hpp"

namespace tutti {

/// A search's state in host memory, of which nothing is touched that the search does not use.
class StateMemory {
 public:
  explicit StateMemory(const CtcStateLayout& layout);

  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  /// What is used of it.
  [[nodiscard]] std::vector<std::byte> save() const;
  /// The inverse. Throws std::invalid_argument for bytes that end too early, or are of a larger state.
  void load(std::span<const std::byte> bytes);

 private:
  CtcStateLayout layout_;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace tutti
