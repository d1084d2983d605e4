#include "gpu/cpu/row_test.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "gpu/cpu/gemm_packer.hpp"
#include "tests/gpu/random_tensor.hpp"

namespace tutti::cpu {
namespace {

/// Sums of a row, plus an error that may depend on where the row stands.
class FaultyGemm final : public PackedGemm {
 public:
  using Fault = std::function<float(int64_t row, int64_t rows)>;
  explicit FaultyGemm(Fault fault) : PackedGemm(8, 1), fault_(std::move(fault)) {}
  void run(const GemmInput& x, int64_t rows, const GemmOutput& out, GemmScratch&) const override {
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = x.row(r);
      out.y[r] = std::accumulate(row, row + in_features(), fault_(r, rows));
    }
  }

 private:
  Fault fault_;
};

TEST(RowTest, PassesAProductWhoseRowsDependOnNothingElse) {
  GemmScratch scratch;
  EXPECT_TRUE(rows_are_independent(FaultyGemm([](int64_t, int64_t) { return 0.0F; }), scratch));
}

TEST(RowTest, FindsAProductThatDependsOnTheNumberOfRows) {
  GemmScratch scratch;
  for (const int64_t several : {16, 32, 64}) {
    const FaultyGemm gemm([=](int64_t, int64_t rows) { return rows >= several ? 1.0F : 0.0F; });
    EXPECT_EQ(rows_are_independent(gemm, scratch), false) << several;
  }
}

TEST(RowTest, FindsAProductThatDependsOnTheRowsPlace) {
  GemmScratch scratch;
  const FaultyGemm gemm([](int64_t row, int64_t) { return row % 6 == 5 ? 1.0F : 0.0F; });
  EXPECT_FALSE(rows_are_independent(gemm, scratch));
}

TEST(GemmPacker, ServesOnlyProductsThatPassTheRowTest) {
  GemmPacker packer(GemmChoice::automatic);
  GemmScratch scratch;
  for (const auto& [in, out] :
       {std::pair{256, 256}, std::pair{300, 70}, std::pair{576, 64}, std::pair{80, 1}}) {
    Random random(static_cast<uint64_t>(in));
    const Tensor weight = random.tensor({out, in});
    const auto gemm = packer.pack({weight.view().f32(), nullptr, in, out});
    EXPECT_TRUE(rows_are_independent(*gemm, scratch)) << in << " to " << out << ", " << packer.description();
  }
}

TEST(GemmPacker, FallsBackToThePanelKernelForMatricesBeyondTheScratch) {
  GemmPacker packer(GemmChoice::onednn);
  constexpr int wide = 20000;
  const std::vector<float> weight(wide, 0.5F);
  const auto gemm = packer.pack({weight.data(), nullptr, wide, 1});
  const std::vector<float> x(wide, 1.0F);
  GemmScratch scratch;
  float y = 0;
  gemm->run(GemmInput::matrix(x.data(), wide), 1, {.y = &y}, scratch);
  EXPECT_FLOAT_EQ(y, 0.5F * wide);
}

}  // namespace
}  // namespace tutti::cpu
