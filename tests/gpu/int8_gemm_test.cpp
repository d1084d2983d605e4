#include "gpu/cpu/int8_gemm.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "gpu/cpu/row_quantizer.hpp"
#include "gpu/int8_weights.hpp"
#include "tests/gpu/every_target.hpp"
#include "tests/gpu/random_tensor.hpp"

namespace tutti::cpu {
namespace {

struct Column {
  std::vector<int8_t> codes;
  float scale;

  explicit Column(std::span<const float> weights)
      : codes(weights.size()), scale(quantize_weights(weights, codes)) {}
};

struct Row {
  std::vector<uint8_t> codes;
  RowCodes meaning;

  explicit Row(std::span<const float> x)
      : codes((x.size() + code_block - 1) / code_block * code_block),
        meaning(quantize_row(x.data(), static_cast<int>(x.size()), codes.data())) {}
};

/// The product by plain loops over the codes, with the same rounding once the sum is known.
std::vector<float> product_of_codes(const TensorView& weight, const TensorView& x) {
  std::vector<Column> columns;
  for (int64_t n = 0; n < weight.rows(); ++n) columns.emplace_back(Random::values(weight[n]));
  std::vector<float> y;
  for (int64_t r = 0; r < x.rows(); ++r) {
    const Row row(Random::values(x[r]));
    for (const Column& column : columns) {
      int32_t sum = 0;
      for (size_t k = 0; k < column.codes.size(); ++k) {
        sum += (int32_t{row.codes[k]} - row.meaning.zero) * column.codes[k];
      }
      y.push_back(static_cast<float>(sum) * column.scale * row.meaning.scale);
    }
  }
  return y;
}

std::vector<float> product(const TensorView& weight, const TensorView& x) {
  const auto in = static_cast<int>(weight.cols());
  const auto out = static_cast<int>(weight.rows());
  const auto gemm = pack_int8_gemm({weight.f32(), nullptr, in, out});
  GemmScratch scratch;
  std::vector<float> y(static_cast<size_t>(x.rows() * out));
  gemm->run(GemmInput::matrix(x.f32(), in), x.rows(), {.y = y.data()}, scratch);
  return y;
}

TEST(Int8Weights, KeepEveryProductWithin16BitsAndWithinHalfAStep) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const int n = random.between(1, 70);
    const Tensor weights = random.tensor({n}, std::exp(4 * random.normal()));
    // Uneven ones too: a spike among nothing, or all of one size.
    for (float& w : Random::values(weights)) {
      if (seed % 3 == 1 && random.between(0, 7) != 0) w = 0;
      if (seed % 3 == 2) w = std::copysign(1.0F, w);
    }
    const std::span<const float> given = Random::values(weights);
    const Column column(given);
    for (size_t k = 0; k < given.size(); ++k) {
      EXPECT_LE(std::abs(given[k] - column.scale * static_cast<float>(column.codes[k])),
                0.50001F * column.scale);
    }
    for (size_t group = 0; group < given.size(); group += code_group) {
      std::array<int, 2> quads{};
      for (size_t k = group; k < std::min(group + code_group, given.size()); ++k) {
        quads[(k - group) % 4 / 2] += std::abs(column.codes[k]);
      }
      EXPECT_LE(std::max(quads[0], quads[1]), max_quad_magnitude) << "from " << group;
    }
  }
}

TEST(Int8Weights, OfNothingAndOfWhatIsNotFiniteHaveNoCodes) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Column(std::vector<float>(9, 0.0F)).scale, 0.0F);
  EXPECT_EQ(Column(std::vector<float>(9, 1e-42F)).scale, 0.0F);
  EXPECT_TRUE(std::isnan(Column(std::vector<float>{1, nan, 2}).scale));
  EXPECT_TRUE(std::isnan(Column(std::vector<float>{1, std::numeric_limits<float>::infinity()}).scale));
}

TEST(RowQuantizer, RoundsToTheNearestOf256LevelsAndKeepsZero) {
  on_every_target([] {
    for (uint64_t seed = 0; seed < 60; ++seed) {
      Random random(seed);
      SCOPED_TRACE(random.trace());
      const Tensor x = random.tensor({random.between(1, 300)}, std::exp(4 * random.normal()));
      for (float& value : Random::values(x)) {
        if (seed % 3 == 1) value = std::abs(value);  // what follows a ReLU has twice the resolution
        if (seed % 3 == 2 && random.between(0, 1) == 0) value = 0;
      }
      const std::span<const float> given = Random::values(x);
      const Row row(given);
      for (size_t k = 0; k < given.size(); ++k) {
        const float value = row.meaning.scale * static_cast<float>(row.codes[k] - row.meaning.zero);
        // The zero is rounded to a level too, so that the ends of the range may lie half a level outside.
        EXPECT_LE(std::abs(given[k] - value), 1.001F * row.meaning.scale);
        if (given[k] == 0) {
          EXPECT_EQ(value, 0);
        }
      }
      if (seed % 3 == 1) {
        EXPECT_EQ(row.meaning.zero, 0);
      }
    }
  });
}

TEST(RowQuantizer, MarksARowThatIsNotFinite) {
  on_every_target([] {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
      for (size_t at = 0; at < 37; ++at) {
        std::vector<float> x(37, 1.0F);
        x[at] = bad;
        EXPECT_TRUE(std::isnan(Row(x).meaning.scale)) << bad << " at " << at;
      }
    }
    EXPECT_EQ(Row(std::vector<float>(37, 0.0F)).meaning.scale, 0.0F);
  });
}

TEST(Int8Gemm, HasTheSameBitsAsPlainLoopsOnEveryTarget) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const int in = random.pick({1, 3, 8, 16, 31, 144, 256, 257, 600});
    const int out = random.pick({1, 5, 16, 33, 127, 128, 129, 300});
    const int rows = random.between(1, 40);
    const Tensor weight = random.tensor({out, in});
    const Tensor x = random.tensor({rows, in});
    const std::vector<float> expected = product_of_codes(weight, x);
    on_every_target([&] { EXPECT_TRUE(same_bits(product(weight, x), expected)) << in << " to " << out; });
  }
}

TEST(Int8Gemm, IsExactWhereEveryPartialSumIsAsLargeAsItCanBe) {
  // Weights of half a step more than 31 are rounded to 32, four of which are the largest quad there can be; a
  // row of ones has codes of 255. Signs drive the sums to either end.
  constexpr float w = 31.5F;
  for (const int in : {8, 16, 2304}) {
    const Tensor weight = host_tensor(DType::f32, {4, in});
    const Tensor x = host_tensor(DType::f32, {2, in});
    for (int k = 0; k < in; ++k) {
      weight.view()[0].f32()[k] = w;
      weight.view()[1].f32()[k] = -w;
      weight.view()[2].f32()[k] = k % 2 == 0 ? w : -w;
      weight.view()[3].f32()[k] = k % 8 < 4 ? w : -w;
      x.view()[0].f32()[k] = 1;
      x.view()[1].f32()[k] = k % 2 == 0 ? 1.0F : -1.0F;
    }
    ASSERT_EQ(Column(Random::values(weight.view()[0])).codes[0], max_quad_magnitude / 4);
    ASSERT_EQ(Row(Random::values(x.view()[0])).codes[0], 255);
    const std::vector<float> expected = product_of_codes(weight, x);
    on_every_target([&] { EXPECT_TRUE(same_bits(product(weight, x), expected)) << in; });
  }
}

TEST(Int8Gemm, GivesARowTheSameBitsAmongAnyNumberOfRowsOnEveryTarget) {
  constexpr int in = 72;
  constexpr int out = 40;
  constexpr int most = 128;
  Random random(1);
  const Tensor weight = random.tensor({out, in});
  const Tensor x = random.tensor({most, in});
  const std::vector<float> all = product_of_codes(weight, x);
  on_every_target([&] {
    for (int rows = 1; rows <= most; ++rows) {
      const std::vector<float> some = product(weight, x.view().slice(0, rows));
      ASSERT_TRUE(same_bits(some, std::span(all).first(some.size()))) << rows << " rows";
    }
  });
}

TEST(Int8Gemm, IsWithinTheRoundingOfItsOperands) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const int in = random.between(1, 400);
    const Tensor weight = random.tensor({7, in});
    const Tensor x = random.tensor({5, in});
    const std::vector<float> y = product(weight, x);
    for (int64_t r = 0; r < 5; ++r) {
      const double step = Row(Random::values(x.view()[r])).meaning.scale;
      for (int64_t n = 0; n < 7; ++n) {
        const double half_weight = 0.5 * Column(Random::values(weight.view()[n])).scale;
        double sum = 0;
        double limit = 1e-5;
        for (int64_t k = 0; k < in; ++k) {
          const double a = x.view()[r].f32()[k];
          const double w = weight.view()[n].f32()[k];
          sum += a * w;
          limit += std::abs(a) * half_weight + (std::abs(w) + half_weight) * step;
        }
        EXPECT_NEAR(y[static_cast<size_t>(r * 7 + n)], sum, limit);
      }
    }
  }
}

TEST(Int8Gemm, LeavesLongerRowsThanItsSumsHoldToAnotherProduct) {
  const float weight = 0;
  EXPECT_EQ(pack_int8_gemm({&weight, nullptr, (1 << 17) + 1, 1}), nullptr);
}

}  // namespace
}  // namespace tutti::cpu
