#include "gpu/cpu/layer_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/gpu/every_target.hpp"
#include "tests/gpu/random_tensor.hpp"
#include "tests/gpu/references.hpp"

namespace tutti {
namespace {

constexpr float eps = 1e-5F;

TEST(LayerNorm, MatchesADoubleReferenceAtAnyWidth) {
  for (const int width : {1, 3, 16, 64, 72, 80, 128, 250, 256, 513}) {
    Random random(static_cast<uint64_t>(width));
    SCOPED_TRACE(random.trace());
    const Tensor x = random.tensor({random.between(1, 70), width}, 3.0F);
    const Tensor gamma = random.tensor({width});
    const Tensor beta = random.tensor({width});
    const Tensor y = host_tensor(DType::f32, x.shape());
    on_every_target([&] {
      cpu::layer_norm(x, gamma, beta, eps, y);
      EXPECT_TRUE(close_to(Random::values(y), reference::layer_norm(x, gamma, beta, eps), 2e-6)) << width;
    });
  }
}

TEST(LayerNorm, KeepsTheVarianceOfRowsFarFromZero) {
  Random random(1);
  const Tensor x = random.tensor({4, 256});
  for (float& v : Random::values(x)) v = 4096.0F + std::round(v * 64) / 64;  // exact in float
  const Tensor gamma = host_tensor({256}, std::vector<float>(256, 1.0F));
  const Tensor beta = host_tensor(DType::f32, {256});
  const Tensor y = host_tensor(DType::f32, x.shape());
  cpu::layer_norm(x, gamma, beta, eps, y);
  EXPECT_TRUE(close_to(Random::values(y), reference::layer_norm(x, gamma, beta, eps), 1e-3));
}

TEST(LayerNorm, GivesARowTheSameBitsAloneInPlaceAndInACrowd) {
  Random random(2);
  const Tensor x = random.tensor({37, 72});
  const Tensor gamma = random.tensor({72});
  const Tensor beta = random.tensor({72});
  const Tensor y = host_tensor(DType::f32, x.shape());
  cpu::layer_norm(x, gamma, beta, eps, y);
  for (int64_t r = 0; r < 37; ++r) {
    const TensorView row = x.view().slice(r, 1);
    cpu::layer_norm(row, gamma, beta, eps, row);
    EXPECT_TRUE(same_bits(Random::values(row), Random::values(y.view()[r]))) << "row " << r;
  }
}

}  // namespace
}  // namespace tutti
