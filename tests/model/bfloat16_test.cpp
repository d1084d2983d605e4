#include "model/bfloat16.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <random>

namespace tutti {
namespace {

uint16_t rounded_bits(uint32_t bits) { return to_bfloat16(std::bit_cast<float>(bits)); }

TEST(Bfloat16, KeepsWhatItCanHold) {
  EXPECT_EQ(to_bfloat16(0.0F), 0x0000);
  EXPECT_EQ(to_bfloat16(-0.0F), 0x8000);
  EXPECT_EQ(to_bfloat16(1.0F), 0x3F80);
  EXPECT_EQ(to_bfloat16(-2.5F), 0xC020);
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float value = from_bfloat16(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(to_bfloat16(value), bits);
  }
}

TEST(Bfloat16, RoundsToTheNearest) {
  EXPECT_EQ(rounded_bits(0x3F807FFF), 0x3F80);  // just below half
  EXPECT_EQ(rounded_bits(0x3F808001), 0x3F81);  // just above
  EXPECT_EQ(rounded_bits(0xBF808001), 0xBF81);
  EXPECT_EQ(rounded_bits(0x3FFFFFFF), 0x4000);  // carries into the exponent
}

TEST(Bfloat16, RoundsHalvesToTheEvenNeighbour) {
  EXPECT_EQ(rounded_bits(0x3F808000), 0x3F80);
  EXPECT_EQ(rounded_bits(0x3F818000), 0x3F82);
  EXPECT_EQ(rounded_bits(0xBF818000), 0xBF82);
}

TEST(Bfloat16, RoundsDenormalsLikeAnyOtherNumber) {
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(rounded_bits(0x80000001), 0x8000);
  EXPECT_EQ(rounded_bits(0x00008000), 0x0000);  // half of the smallest
  EXPECT_EQ(rounded_bits(0x00008001), 0x0001);
  EXPECT_EQ(rounded_bits(0x007FFFFF), 0x0080);  // the largest becomes the smallest normal
}

TEST(Bfloat16, GoesToInfinityBeyondTheLargest) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_bfloat16(infinity), 0x7F80);
  EXPECT_EQ(to_bfloat16(-infinity), 0xFF80);
  EXPECT_EQ(rounded_bits(0x7F7F7FFF), 0x7F7F);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::lowest()), 0xFF80);
}

TEST(Bfloat16, KeepsEveryNanANan) {
  for (const uint32_t bits : {0x7FC00000U, 0xFFC00000U, 0x7F800001U, 0xFF800001U, 0x7FFFFFFFU, 0xFFFFFFFFU}) {
    const uint16_t narrow = rounded_bits(bits);
    EXPECT_TRUE(std::isnan(from_bfloat16(narrow))) << std::hex << bits;
    EXPECT_EQ(narrow >> 15, bits >> 31) << std::hex << bits;
  }
}

TEST(Bfloat16, IsNeverFurtherThanEitherNeighbour) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 100'000; ++i) {
    const auto bits = static_cast<uint32_t>(random()) & 0x7FFFFFFF;
    if (bits >= 0x7F7F0000) continue;  // no finite neighbour above
    const double value = std::bit_cast<float>(bits);
    const double below = from_bfloat16(static_cast<uint16_t>(bits >> 16));
    const double above = from_bfloat16(static_cast<uint16_t>((bits >> 16) + 1));
    const double chosen = from_bfloat16(rounded_bits(bits));
    ASSERT_LE(std::abs(chosen - value), std::min(value - below, above - value)) << bits;
  }
}

TEST(Bfloat16, ConvertsTensors) {
  const Tensor narrow = narrow_to_bfloat16(host_tensor({2, 1}, std::vector<float>{1.00390625F, -3}));
  EXPECT_EQ(narrow.view().dtype, DType::bf16);
  EXPECT_EQ(narrow.bytes(), 4U);
  const Tensor wide = widen_to_float(narrow);
  EXPECT_EQ(wide.shape(), Shape({2, 1}));
  EXPECT_THAT(std::vector<float>(wide.view().f32(), wide.view().f32() + 2), ::testing::ElementsAre(1, -3));
}

}  // namespace
}  // namespace tutti
