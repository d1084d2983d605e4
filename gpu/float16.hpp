#pragma once

#include <bit>
#include <cstdint>

namespace tutti {

// float16 (IEEE 754 binary16): a sign, 5 bits of exponent with bias 15, 10 bits of mantissa. It holds
// multiples of 2^-24 below 2^-14, and then up to 65504 eleven significant binary digits.

namespace float16_bits {
// As float32 bits.
inline constexpr uint32_t float_infinity = 0x7F800000;
inline constexpr uint32_t least_normal = std::bit_cast<uint32_t>(0x1p-14F);
/// Halfway between the largest float16 and the next power of two: rounds to infinity.
inline constexpr uint32_t overflow = std::bit_cast<uint32_t>(65520.0F);
/// A float32 of this size has a last digit of 2^-24, so that adding it rounds to float16's subnormals.
inline constexpr float subnormal_rounder = 0x1p-1F;
/// Digits of the float32 mantissa that float16 drops, and what is to be taken from its exponent then.
inline constexpr int dropped = 13;
inline constexpr uint32_t rebias = (127 - 15) << 10;
// As float16 bits.
inline constexpr uint32_t infinity = 0x7C00;
inline constexpr uint32_t quiet_nan = 0x7E00;
}  // namespace float16_bits

/// The nearest float16, halves to even; beyond the largest finite one lies infinity. A NaN stays one, quiet.
[[nodiscard]] constexpr uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > float16_bits::float_infinity) return static_cast<uint16_t>(sign | float16_bits::quiet_nan);
  if (magnitude >= float16_bits::overflow) return static_cast<uint16_t>(sign | float16_bits::infinity);
  if (magnitude < float16_bits::least_normal) {
    const float rounded = std::bit_cast<float>(magnitude) + float16_bits::subnormal_rounder;
    return static_cast<uint16_t>(
        sign | (std::bit_cast<uint32_t>(rounded) - std::bit_cast<uint32_t>(float16_bits::subnormal_rounder)));
  }
  const uint32_t to_even = (magnitude >> float16_bits::dropped) & 1;
  const uint32_t half = (uint32_t{1} << (float16_bits::dropped - 1)) - 1;
  return static_cast<uint16_t>(
      sign | (((magnitude + half + to_even) >> float16_bits::dropped) - float16_bits::rebias));
}

/// Exact.
[[nodiscard]] constexpr float from_float16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t magnitude = bits & 0x7FFF;
  if (magnitude >= float16_bits::infinity) {
    const uint32_t mantissa = (magnitude - float16_bits::infinity) << float16_bits::dropped;
    return std::bit_cast<float>(sign | float16_bits::float_infinity | mantissa);
  }
  const float value = magnitude < 0x400
                          ? static_cast<float>(magnitude) * 0x1p-24F
                          : std::bit_cast<float>((magnitude + float16_bits::rebias) << float16_bits::dropped);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

}  // namespace tutti
