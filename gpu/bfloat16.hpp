#pragma once

#include <bit>
#include <cstdint>

namespace tutti {

// bfloat16 is the upper half of a float32: the same exponent, 8 bits of precision instead of 24. constexpr,
// so that CUDA kernels call these too.

/// The nearest bfloat16, halves to even; beyond the largest finite one lies infinity. A NaN stays one, quiet.
[[nodiscard]] constexpr uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  // Rounding could carry a NaN's low bits into infinity.
  if (value != value) return static_cast<uint16_t>((bits >> 16) | 0x40);
  const uint32_t to_even = (bits >> 16) & 1;
  return static_cast<uint16_t>((bits + 0x7FFF + to_even) >> 16);
}

/// Exact.
[[nodiscard]] constexpr float from_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

}  // namespace tutti
