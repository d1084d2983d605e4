#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <stdexcept>

namespace tutti {

/// Throws std::invalid_argument, naming `owner` and `name`, for an extent below 1.
inline size_t checked_extent(const char* owner, const char* name, int extent) {
  if (extent > 0) return static_cast<size_t>(extent);
  throw std::invalid_argument(fmt::format("{}: {} = {}, expected at least 1", owner, name, extent));
}

}  // namespace tutti
