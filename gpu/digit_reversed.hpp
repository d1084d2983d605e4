#pragma once

#include <cstdint>

namespace tutti {

/// Where an in-place transform of `points` points leaves frequency k: its base-4 digits reversed, with a last
/// base-2 digit when the number of points is not a power of four.
[[nodiscard]] inline int32_t digit_reversed(int k, int points) {
  int at = 0;
  int block = points;
  for (; block >= 4; block /= 4, k /= 4) at += (k % 4) * (block / 4);
  if (block == 2) at += k % 2;
  return at;
}

}  // namespace tutti
