#include "gpu/float8.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/gpu/random_tensor.hpp"

namespace tutti {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr int largest_code = 0x7E;

/// By the definition: sign, exponent with bias 7, mantissa.
double value_of(int code) {
  const int exponent = code >> 3 & 0xF;
  const int mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 7 - 3);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

TEST(Float8, DecodesEveryCodeAndEncodesItBack) {
  for (int code = 0; code < 256; ++code) {
    SCOPED_TRACE(code);
    const float value = from_float8_e4m3(static_cast<uint8_t>(code));
    EXPECT_EQ(std::signbit(value), code >= 0x80);
    EXPECT_EQ(to_float8_e4m3(value), code);
    if ((code & 0x7F) == 0x7F)
      EXPECT_TRUE(std::isnan(value));
    else
      EXPECT_EQ(value, value_of(code));
  }
  EXPECT_EQ(from_float8_e4m3(largest_code), float8_e4m3_max);
}

TEST(Float8, RoundsToTheNearestAndHalvesToEven) {
  for (int code = 0; code < largest_code; ++code) {
    for (const int sign : {0, 0x80}) {
      SCOPED_TRACE(code | sign);
      const float low = from_float8_e4m3(static_cast<uint8_t>(code | sign));
      const float high = from_float8_e4m3(static_cast<uint8_t>((code + 1) | sign));
      const float half = (low + high) / 2;
      EXPECT_EQ(to_float8_e4m3(half), (code + code % 2) | sign);
      EXPECT_EQ(to_float8_e4m3(std::nextafter(half, low)), code | sign);
      EXPECT_EQ(to_float8_e4m3(std::nextafter(half, high)), (code + 1) | sign);
    }
  }
}

TEST(Float8, RoundsWhatIsFarBelowItsLeastValueToZeroOfTheSameSign) {
  for (const float tiny : {0x1p-149F, 0x1p-126F, 0x1p-20F, 0x1p-10F}) {
    EXPECT_EQ(to_float8_e4m3(tiny), 0x00);
    EXPECT_EQ(to_float8_e4m3(-tiny), 0x80);
  }
}

TEST(Float8, SaturatesWhatItCannotHoldAndKeepsANan) {
  for (const float large : {449.0F, 463.9F, 464.0F, 480.0F, 1e9F, infinity}) {
    EXPECT_EQ(to_float8_e4m3(large), largest_code);
    EXPECT_EQ(to_float8_e4m3(-large), largest_code | 0x80);
  }
  EXPECT_EQ(to_float8_e4m3(std::numeric_limits<float>::quiet_NaN()), 0x7F);
  EXPECT_EQ(to_float8_e4m3(-std::numeric_limits<float>::quiet_NaN()), 0xFF);
}

TEST(Float8, ScalesByTheLeastPowerOfTwoThatBringsTheLargestValueInside) {
  Random random(1);
  SCOPED_TRACE(random.trace());
  std::vector<float> amaxima{448, 449, 447, 0.875F, std::nextafter(448.0F, 500.0F), 1e-30F, 1e30F};
  for (int i = 0; i < 1000; ++i) amaxima.push_back(std::abs(random.normal(std::ldexp(1.0F, i % 60 - 30))));
  for (const float amax : amaxima) {
    SCOPED_TRACE(amax);
    const float scale = float8_e4m3_scale(amax);
    int exponent = 0;
    EXPECT_EQ(std::frexp(scale, &exponent), 0.5F) << "a power of two";
    EXPECT_LE(amax / scale, float8_e4m3_max);
    EXPECT_GT(amax / (scale / 2), float8_e4m3_max);
    EXPECT_EQ(float8_e4m3_scale(-amax), scale);
  }
}

TEST(Float8, ScalesByAFinitePositiveNumberWhateverTheLargestValue) {
  for (const float amax : {0.0F, 0x1p-149F, 0x1p-126F, std::numeric_limits<float>::max(), infinity,
                           std::numeric_limits<float>::quiet_NaN()}) {
    const float scale = float8_e4m3_scale(amax);
    EXPECT_GE(scale, 0x1p-126F);
    EXPECT_TRUE(std::isfinite(scale));
    EXPECT_TRUE(std::isfinite(1 / scale));
  }
  EXPECT_EQ(float8_e4m3_scale(0), 0x1p-126F);
}

TEST(Float8, KeepsFourSignificantDigitsOfAScaledVector) {
  Random random(2);
  SCOPED_TRACE(random.trace());
  for (int i = 0; i < 1000; ++i) {
    const float amax = std::abs(random.normal(100));
    const float scale = float8_e4m3_scale(amax);
    const float kept = from_float8_e4m3(to_float8_e4m3(amax / scale)) * scale;
    EXPECT_NEAR(kept, amax, amax / 16);
  }
}

}  // namespace
}  // namespace tutti
