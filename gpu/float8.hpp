#pragma once

#include <bit>
#include <cstdint>

namespace tutti {

// float8 e4m3 ("e4m3fn" of Micikevicius et al., "FP8 formats for deep learning", and of ONNX): a sign, 4 bits
// of exponent with bias 7, 3 bits of mantissa, no infinity, and one NaN of each sign, 0x7F and 0xFF. It holds
// multiples of 2^-9 below 2^-6, and then up to 448 four significant binary digits. The functions are
// constexpr and refer to no constant, so that CUDA kernels call them too.

inline constexpr float float8_e4m3_max = 448.0F;

namespace float8_bits {
// As float32 bits.
inline constexpr uint32_t infinity = 0x7F800000;
inline constexpr uint32_t largest = std::bit_cast<uint32_t>(float8_e4m3_max);
inline constexpr uint32_t least_normal = std::bit_cast<uint32_t>(0x1p-6F);
/// A float32 of this size has a last digit of 2^-9, so that adding it rounds to float8's subnormals.
inline constexpr float subnormal_rounder = 0x1p14F;
/// Digits of the float32 mantissa that float8 drops, and what is to be taken from its exponent then.
inline constexpr int dropped = 20;
inline constexpr uint32_t rebias = (127 - 7) << 3;
/// Added to a float32's bits, carries into the exponent where the mantissa is above that of 448 = 1.75 * 2^8.
inline constexpr uint32_t above_largest_mantissa = (uint32_t{1} << 21) - 1;
}  // namespace float8_bits

/// The nearest float8, halves to even. Values beyond the range become +-448, infinities too; a NaN stays one.
[[nodiscard]] constexpr uint8_t to_float8_e4m3(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > float8_bits::infinity) return static_cast<uint8_t>(sign | 0x7F);
  const uint32_t bounded = magnitude < float8_bits::largest ? magnitude : float8_bits::largest;
  if (bounded < float8_bits::least_normal) {
    const float rounded = std::bit_cast<float>(bounded) + float8_bits::subnormal_rounder;
    return static_cast<uint8_t>(
        sign | (std::bit_cast<uint32_t>(rounded) - std::bit_cast<uint32_t>(float8_bits::subnormal_rounder)));
  }
  const uint32_t to_even = (bounded >> float8_bits::dropped) & 1;
  const uint32_t half = (uint32_t{1} << (float8_bits::dropped - 1)) - 1;
  return static_cast<uint8_t>(sign |
                              (((bounded + half + to_even) >> float8_bits::dropped) - float8_bits::rebias));
}

/// Exact.
[[nodiscard]] constexpr float from_float8_e4m3(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  const uint32_t magnitude = code & 0x7F;
  if (magnitude == 0x7F) return std::bit_cast<float>(sign | 0x7FC00000);
  const float value = magnitude < 8
                          ? static_cast<float>(magnitude) * 0x1p-9F
                          : std::bit_cast<float>((magnitude + float8_bits::rebias) << float8_bits::dropped);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

/// The least power of two, and at least 2^-126, that brings `amax` inside +-448 when divided by it.
/// An infinity or a NaN takes a finite scale too: it shows in the code.
[[nodiscard]] constexpr float float8_e4m3_scale(float amax) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(amax) & 0x7FFFFFFF;
  const uint32_t exponent = (magnitude + float8_bits::above_largest_mantissa) >> 23;
  return std::bit_cast<float>((exponent < 9 ? 1 : exponent - 8) << 23);
}

}  // namespace tutti
