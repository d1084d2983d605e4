#include "gpu/cpu/row_test.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace tutti::cpu {
namespace {

constexpr int distinct_rows = 16;
/// Which distinct row stands at place r: every one visits different places as `turn` changes.
constexpr int row_at(int r, int turn) { return (r * 5 + turn) % distinct_rows; }

}  // namespace

std::vector<float> arbitrary_values(size_t count) {
  // Not a standard distribution: there may be millions of values, and those take a logarithm for each.
  std::minstd_rand random(1);
  std::vector<float> values(count);
  for (float& x : values) x = static_cast<float>(random()) / 1073741824.0F - 1.0F;
  return values;
}

bool rows_are_independent(const PackedGemm& gemm, GemmScratch& scratch) {
  const auto in = static_cast<size_t>(gemm.in_features());
  const auto out = static_cast<size_t>(gemm.out_features());
  const std::vector<float> distinct = arbitrary_values(distinct_rows * in);
  std::vector<float> expected(distinct_rows * out);
  gemm.run(GemmInput::matrix(distinct.data(), gemm.in_features()), distinct_rows, {.y = expected.data()},
           scratch);

  int turn = 0;
  for (const int rows : {1, 16, 33, 64}) {
    ++turn;
    std::vector<float> x(static_cast<size_t>(rows) * in);
    std::vector<float> y(static_cast<size_t>(rows) * out);
    for (int r = 0; r < rows; ++r) {
      std::copy_n(distinct.data() + row_at(r, turn) * in, in, x.data() + r * in);
    }
    gemm.run(GemmInput::matrix(x.data(), gemm.in_features()), rows, {.y = y.data()}, scratch);
    for (int r = 0; r < rows; ++r) {
      const float* wanted = expected.data() + row_at(r, turn) * out;
      if (std::memcmp(wanted, y.data() + r * out, out * sizeof(float)) != 0) return false;
    }
  }
  return true;
}

}  // namespace tutti::cpu
