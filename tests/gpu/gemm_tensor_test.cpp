#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "gpu/bfloat16.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/cpu/row_quantizer.hpp"
#include "gpu/float16.hpp"
#include "gpu/float8.hpp"
#include "gpu/int8_weights.hpp"
#include "tests/gpu/conformance.hpp"

namespace tutti {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

std::vector<double> as_float8(std::span<const float> values) {
  float amax = 0;
  for (const float x : values) amax = std::max(amax, std::abs(x));
  const float scale = float8_e4m3_scale(amax);
  std::vector<double> rounded;
  for (const float x : values) rounded.push_back(scale * from_float8_e4m3(to_float8_e4m3(x / scale)));
  return rounded;
}

std::vector<double> as_int8_weights(std::span<const float> values) {
  std::vector<int8_t> codes(values.size());
  const double scale = quantize_weights(values, codes);
  std::vector<double> rounded;
  for (const int8_t code : codes) rounded.push_back(scale * code);
  return rounded;
}

std::vector<double> as_int8_row(std::span<const float> values) {
  std::vector<uint8_t> codes((values.size() + cpu::code_block - 1) / cpu::code_block * cpu::code_block);
  const cpu::RowCodes meaning =
      cpu::quantize_row(values.data(), static_cast<int>(values.size()), codes.data());
  std::vector<double> rounded;
  for (size_t k = 0; k < values.size(); ++k) {
    rounded.push_back(static_cast<double>(meaning.scale) * (codes[k] - meaning.zero));
  }
  return rounded;
}

/// A row's or an output's factors as products in `type` take them.
std::vector<double> rounded(WeightType type, std::span<const float> values, bool weights) {
  if (type == WeightType::fp8) return as_float8(values);
  if (type == WeightType::int8) return weights ? as_int8_weights(values) : as_int8_row(values);
  std::vector<double> result;
  for (const float x : values) {
    result.push_back(type == WeightType::bf16 ? from_bfloat16(to_bfloat16(x)) : from_float16(to_float16(x)));
  }
  return result;
}

/// Matrix products on tensor cores, in every type.
class GemmTensor : public OpsConformance {
 protected:
  static std::vector<float> linear(Ops& ops, const PackedLinear& packed, const TensorView& x,
                                   const Epilogue& epilogue = {}) {
    const Tensor y = ops.allocate(DType::f32, {x.rows(), packed.out_features()});
    ops.linear(packed, ops.upload(x), epilogue, y);
    std::vector<float> values(static_cast<size_t>(y.shape().elements()));
    ops.download(y, values);
    return values;
  }
  std::vector<float> linear(const PackedLinear& packed, const TensorView& x, const Epilogue& epilogue = {}) {
    return linear(ops(), packed, x, epilogue);
  }
  [[nodiscard]] static WeightType type() { return GetParam().weights; }
  /// What a sum may be off by, relative to its terms' magnitudes. An Ada GPU adds products of float8 with
  /// fewer digits than f32 has.
  [[nodiscard]] static double sum_tolerance() {
    return type() == WeightType::fp8 && !GetParam().slow ? 1e-3 : 2e-6;
  }
};
// None where neither fibers nor a GPU can run its kernels.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GemmTensor);
INSTANTIATE_TEST_SUITE_P(Backends, GemmTensor, testing::ValuesIn(tensor_core_backends()), backend_name);

TEST_P(GemmTensor, SumsTheProductsOfRoundedFactorsForAnyShapeAndEpilogue) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const int in = random.pick({1, 3, 16, 31, 32, 33, 64, 65, 144, 257});
    const int out = random.pick({1, 5, 17, 63, 64, 65, 130});
    const int rows = random.between(1, 70);
    const Tensor weight = random.tensor({out, in}), bias = random.tensor({out}),
                 x = random.tensor({rows, in});
    const Tensor residual = random.tensor({rows, out});
    const auto packed = ops().pack_linear(weight, bias);
    ASSERT_EQ(packed->in_features(), in);
    ASSERT_EQ(packed->out_features(), out);
    const Tensor there = device(residual);
    const std::vector<float> y =
        linear(*packed, x, {.activation = Activation::relu, .scale = 0.5F, .residual = there});
    std::vector<std::vector<double>> columns;
    for (int64_t n = 0; n < out; ++n)
      columns.push_back(rounded(type(), Random::values(weight.view()[n]), true));
    for (int64_t r = 0; r < rows; ++r) {
      const std::vector<double> row = rounded(type(), Random::values(x.view()[r]), false);
      for (int64_t n = 0; n < out; ++n) {
        double sum = bias.view().f32()[n], magnitude = std::abs(sum);
        for (size_t k = 0; k < row.size(); ++k) {
          const double term = row[k] * columns[static_cast<size_t>(n)][k];
          sum += term;
          magnitude += std::abs(term);
        }
        const double added = residual.view()[r].f32()[n];
        ASSERT_NEAR(y[static_cast<size_t>(r * out + n)], added + 0.5 * std::max(sum, 0.0),
                    sum_tolerance() * (magnitude + std::abs(added)))
            << rows << " rows, " << in << " to " << out << ", row " << r << ", column " << n;
      }
    }
  }
}

TEST_P(GemmTensor, GivesARowTheSameBitsAmongAnyNumberOfRowsAndAtAnyPlace) {
  constexpr int in = 150, out = 70;
  Random random(11);
  SCOPED_TRACE(random.trace());
  const auto packed = ops().pack_linear(random.tensor({out, in}), random.tensor({out}));
  const Tensor x = random.tensor({most_rows, in});
  const std::vector<float> all = linear(*packed, x);
  std::vector<int> counts(most_rows - 1);
  std::iota(counts.begin(), counts.end(), 1);
  if (GetParam().slow) counts = {1, 2, 3, 15, 16, 17, 33, 63, 64, 65, 127, 128, 129, 200, 255};
  for (const int rows : counts) {
    const int begin = random.between(0, most_rows - rows);
    const std::vector<float> some = linear(*packed, x.view().slice(begin, rows));
    ASSERT_TRUE(same_bits(some, std::span(all).subspan(static_cast<size_t>(begin) * out, some.size())))
        << rows << " rows from " << begin;
  }
}

TEST_P(GemmTensor, KeepsNonFiniteValuesInTheirOwnRowOrOutputAndVisible) {
  for (const float bad : {static_cast<float>(NAN), infinity, -infinity}) {
    Random random(12);
    const Tensor weight = random.tensor({20, 64});
    weight.view()[7].f32()[63] = bad;
    const auto packed = ops().pack_linear(weight, random.tensor({20}));
    const Tensor x = random.tensor({33, 64});
    x.view()[17].f32()[5] = bad;
    const std::vector<float> y = linear(*packed, x);
    for (int64_t r = 0; r < 33; ++r) {
      const std::span<const float> row = row_of(y, r, 20);
      for (size_t n = 0; n < row.size(); ++n) {
        EXPECT_EQ(std::isfinite(row[n]), r != 17 && n != 7) << "row " << r << ", output " << n << ", " << bad;
      }
    }
  }
}

TEST_P(GemmTensor, TakesRowsOfNothingAndOfWhatIsHardlyAnything) {
  const auto packed = ops().pack_linear(host_tensor({1, 3}, std::vector<float>{1, -2, 0.5F}),
                                        host_tensor({1}, std::vector<float>{7}));
  const Tensor x =
      host_tensor({3, 3}, std::vector<float>{0, 0, 0, 1e-42F, -1e-42F, 0, 1e-33F, 2e-33F, -1e-33F});
  for (const float value : linear(*packed, x)) EXPECT_EQ(value, 7);
}

/// Products of integers.
class GemmInt8 : public GemmTensor {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GemmInt8);
INSTANTIATE_TEST_SUITE_P(Backends, GemmInt8, testing::ValuesIn(tensor_core_backends(WeightType::int8)),
                         backend_name);

TEST_P(GemmInt8, HasTheBitsThatTheCpuHas) {
  const std::unique_ptr<Ops> cpu = make_cpu_ops(cpu::GemmChoice::automatic, WeightType::int8);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const int in = random.pick({1, 31, 64, 144, 257});
    const int out = random.pick({1, 17, 65});
    const int rows = random.between(1, 70);
    const Tensor weight = random.tensor({out, in}), bias = random.tensor({out}),
                 x = random.tensor({rows, in}, std::exp(2 * random.normal()));
    if (seed % 2 == 1) {
      for (float& value : Random::values(x)) value = std::max(value, 0.0F);  // as after a ReLU
    }
    const Epilogue epilogue{.activation = seed % 3 == 0 ? Activation::none : Activation::relu, .scale = 0.7F};
    EXPECT_TRUE(same_bits(linear(*ops().pack_linear(weight, bias), x, epilogue),
                          linear(*cpu, *cpu->pack_linear(weight, bias), x, epilogue)));
  }
}

TEST_P(GemmInt8, GivesARowTheSameBitsAmongMoreRowsThanThereIsScratchFor) {
  constexpr int in = 32768, rows = 257;  // the scratch holds 2^23 codes
  Random random(13);
  SCOPED_TRACE(random.trace());
  const auto packed = ops().pack_linear(random.tensor({1, in}), random.tensor({1}));
  const Tensor some = random.tensor({5, in});
  const Tensor x = host_tensor(DType::f32, {rows, in});
  for (int r = 0; r < rows; ++r) std::copy_n(some.view()[r % 5].f32(), in, x.view()[r].f32());
  const std::vector<float> expected = linear(*packed, some);
  const std::vector<float> y = linear(*packed, x);
  for (size_t r = 0; r < y.size(); ++r) ASSERT_EQ(y[r], expected[r % 5]) << "row " << r;
}

}  // namespace
}  // namespace tutti
