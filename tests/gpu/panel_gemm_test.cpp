#include "gpu/cpu/panel_gemm.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "gpu/bfloat16.hpp"
#include "tests/gpu/every_target.hpp"
#include "tests/gpu/random_tensor.hpp"

namespace tutti::cpu {
namespace {

std::vector<float> product(const PackedGemm& gemm, const TensorView& x) {
  GemmScratch scratch;
  std::vector<float> y(static_cast<size_t>(x.rows() * gemm.out_features()));
  gemm.run(GemmInput::matrix(x.f32(), gemm.in_features()), x.rows(), {.y = y.data()}, scratch);
  return y;
}

TEST(Bf16PanelGemm, HasTheBitsOfTheFp32ProductOfTheRoundedWeights) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const int in = random.pick({1, 31, 256, 257, 600});
    const int out = random.pick({1, 16, 33, 256, 300});
    const Tensor weight = random.tensor({out, in});
    const Tensor bias = random.tensor({out});
    const Tensor x = random.tensor({random.between(1, 140), in});
    std::vector<float> rounded(Random::values(weight).begin(), Random::values(weight).end());
    for (float& value : rounded) value = from_bfloat16(to_bfloat16(value));
    on_every_target([&] {
      const auto bf16 = pack_bf16_panel_gemm({weight.view().f32(), bias.view().f32(), in, out});
      const auto fp32 = pack_panel_gemm({rounded.data(), bias.view().f32(), in, out});
      EXPECT_TRUE(same_bits(product(*bf16, x), product(*fp32, x))) << in << " to " << out;
    });
  }
}

}  // namespace
}  // namespace tutti::cpu
