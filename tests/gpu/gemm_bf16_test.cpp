#include <cmath>

#include "gpu/bfloat16.hpp"
#include "tests/gpu/conformance.hpp"

namespace tutti {
namespace {

/// Matrix products in bfloat16 on tensor cores.
class GemmBf16 : public OpsConformance {
 protected:
  std::vector<float> linear(const PackedLinear& packed, const TensorView& x, const Epilogue& epilogue = {}) {
    const Tensor y = ops().allocate(DType::f32, {x.rows(), packed.out_features()});
    ops().linear(packed, device(x), epilogue, y);
    return host(y);
  }
};
// None where neither fibers nor a GPU can run its kernels.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GemmBf16);
INSTANTIATE_TEST_SUITE_P(Backends, GemmBf16, testing::ValuesIn(bf16_backends()), backend_name);

double rounded(float x) { return from_bfloat16(to_bfloat16(x)); }

TEST_P(GemmBf16, SumsTheProductsOfRoundedFactorsForAnyShapeAndEpilogue) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const int in = random.pick({1, 3, 16, 31, 32, 33, 64, 144, 257});
    const int out = random.pick({1, 5, 17, 63, 64, 65, 130});
    const int rows = random.between(1, 70);
    const Tensor weight = random.tensor({out, in}), bias = random.tensor({out}),
                 x = random.tensor({rows, in});
    const Tensor residual = random.tensor({rows, out});
    const auto packed = ops().pack_linear(weight, bias);
    ASSERT_EQ(packed->in_features(), in);
    const Tensor there = device(residual);
    const std::vector<float> y =
        linear(*packed, x, {.activation = Activation::relu, .scale = 0.5F, .residual = there});
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t n = 0; n < out; ++n) {
        double sum = bias.view().f32()[n], magnitude = std::abs(sum);
        for (int64_t k = 0; k < in; ++k) {
          const double term = rounded(x.view()[r].f32()[k]) * rounded(weight.view()[n].f32()[k]);
          sum += term;
          magnitude += std::abs(term);
        }
        const double added = residual.view()[r].f32()[n];
        ASSERT_NEAR(y[static_cast<size_t>(r * out + n)], added + 0.5 * std::max(sum, 0.0),
                    2e-6 * (magnitude + std::abs(added)))
            << rows << " rows, " << in << " to " << out << ", row " << r << ", column " << n;
      }
    }
  }
}

TEST_P(GemmBf16, GivesARowTheSameBitsAmongAnyNumberOfRowsAndAtAnyPlace) {
  constexpr int in = 150, out = 70, most = 130;
  Random random(11);
  SCOPED_TRACE(random.trace());
  const auto packed = ops().pack_linear(random.tensor({out, in}), random.tensor({out}));
  const Tensor x = random.tensor({most, in});
  const std::vector<float> all = linear(*packed, x);
  for (const int rows : {1, 2, 15, 16, 17, 63, 64, 65, 129}) {
    const int begin = random.between(0, most - rows);
    const std::vector<float> some = linear(*packed, x.view().slice(begin, rows));
    ASSERT_TRUE(same_bits(some, std::span(all).subspan(static_cast<size_t>(begin) * out, some.size())))
        << rows << " rows from " << begin;
  }
}

TEST_P(GemmBf16, KeepsNonFiniteValuesInTheirOwnRow) {
  Random random(12);
  const auto packed = ops().pack_linear(random.tensor({20, 64}), random.tensor({20}));
  const Tensor x = random.tensor({33, 64});
  x.view()[17].f32()[5] = NAN;
  const std::vector<float> y = linear(*packed, x);
  for (int64_t r = 0; r < 33; ++r) {
    for (const float value : row_of(y, r, 20)) EXPECT_EQ(std::isnan(value), r == 17) << "row " << r;
  }
}

}  // namespace
}  // namespace tutti
