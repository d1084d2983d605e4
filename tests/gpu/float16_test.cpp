#include "gpu/float16.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tutti {
namespace {

constexpr int codes = 0x8000;  // of a sign
constexpr int infinite = 0x7C00;

/// By the definition: exponent with bias 15, mantissa.
double value_of(int code) {
  const int exponent = code >> 10;
  const int mantissa = code & 0x3FF;
  return exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 15 - 10);
}

TEST(Float16, DecodesEveryCodeAndEncodesItBack) {
  for (int code = 0; code < codes; ++code) {
    for (const int sign : {0, codes}) {
      const float value = from_float16(static_cast<uint16_t>(code | sign));
      ASSERT_EQ(std::signbit(value), sign != 0) << code;
      if (code > infinite) {
        ASSERT_TRUE(std::isnan(value)) << code;
        ASSERT_TRUE(std::isnan(from_float16(to_float16(value)))) << code;
      } else {
        ASSERT_EQ(to_float16(value), code | sign);
        ASSERT_EQ(std::abs(value), code == infinite ? INFINITY : value_of(code)) << code;
      }
    }
  }
}

TEST(Float16, RoundsToTheNearestAndHalvesToEvenAndToInfinityBeyondItsRange) {
  for (int code = 0; code < infinite; ++code) {
    // Above the largest one the next would be 2^16.
    const auto half = static_cast<float>((value_of(code) + value_of(code + 1)) / 2);
    ASSERT_EQ(to_float16(half), code + code % 2) << code;
    ASSERT_EQ(to_float16(std::nextafter(half, 0.0F)), code);
    ASSERT_EQ(to_float16(std::nextafter(half, INFINITY)), code + 1);
    ASSERT_EQ(to_float16(-half), (code + code % 2) | codes);
  }
  EXPECT_EQ(to_float16(std::numeric_limits<float>::max()), infinite);
  EXPECT_EQ(to_float16(std::numeric_limits<float>::denorm_min()), 0);
}

}  // namespace
}  // namespace tutti
