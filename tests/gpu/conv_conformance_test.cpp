#include "tests/gpu/conformance.hpp"
#include "tests/gpu/conv_weights.hpp"
#include "tests/gpu/references.hpp"

namespace tutti {
namespace {

constexpr float eps = 1e-5F;

class ConvModuleConformance : public OpsConformance {
 protected:
  std::vector<float> run(const std::vector<int>& rows, const TensorView& extended,
                         const ConvWeights& weights) {
    const std::vector<int32_t> begins = row_begins(rows);
    const ConvWeights there{device(weights.depthwise_weight), device(weights.depthwise_bias),
                            device(weights.norm_scale), device(weights.norm_shift), weights.folded};
    const Tensor out = ops().allocate(DType::f32, {begins.back(), weights.depthwise_weight.shape()[0]});
    ops().conv_module({begins}, device(extended), there.view(), eps, out);
    return host(out);
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, ConvModuleConformance,
                         testing::ValuesIn(serving_backends({"conv_module"})), backend_name);

TEST_P(ConvModuleConformance, MatchesADoubleReferenceForLanesOfAnyLength) {
  for (const bool folded : {false, true}) {
    for (const auto& [channels, taps] :
         {std::pair{64, 1}, std::pair{72, 15}, std::pair{300, 7}, std::pair{5, 31}}) {
      Random random(static_cast<uint64_t>(channels));
      SCOPED_TRACE(random.trace());
      const ConvWeights weights = random_conv_weights(random, channels, taps, folded);
      const std::vector<int> rows{random.between(1, 30), 1, 0, 8, random.between(1, 30)};
      const std::vector<int32_t> begins = row_begins(rows);
      const int lanes = static_cast<int>(rows.size());
      const Tensor extended = random.tensor({begins.back() + lanes * (taps - 1), 2 * channels}, 2.0F);
      std::vector<double> expected;
      for (int lane = 0; lane < lanes; ++lane) {
        const auto i = static_cast<size_t>(lane);
        const std::vector<double> y = reference::conv_lane(
            extended.view().slice(begins[i] + lane * (taps - 1), rows[i] + taps - 1), weights.view(), eps);
        expected.insert(expected.end(), y.begin(), y.end());
      }
      EXPECT_TRUE(close_to(run(rows, extended, weights), expected, 4e-6)) << channels << " channels";
    }
  }
}

TEST_P(ConvModuleConformance, GivesARowTheSameBitsInOneChunkAndInSeveral) {
  Random random(6);
  constexpr int channels = 40, taps = 7;
  const ConvWeights weights = random_conv_weights(random, channels, taps, false);
  const Tensor extended = random.tensor({50 + taps - 1, 2 * channels});
  const std::vector<float> whole = run({50}, extended, weights);
  for (int begin = 0; begin < 50; begin += 5) {
    const std::vector<float> part = run({5}, extended.view().slice(begin, 5 + taps - 1), weights);
    EXPECT_TRUE(
        same_bits(part, std::span(whole).subspan(static_cast<size_t>(begin * channels), part.size())));
  }
}

TEST_P(ConvModuleConformance, GivesARowTheSameBitsAmongAnyNumberOfRows) {
  Random random(7);
  constexpr int channels = 40, taps = 7;
  constexpr int extended_rows = most_lane_rows + taps - 1;
  const ConvWeights weights = random_conv_weights(random, channels, taps, false);
  const Tensor extended = random.tensor({most_lanes * extended_rows, 2 * channels});
  const std::vector<float> all = run(full_lanes(most_rows), extended, weights);
  for (int rows = 1; rows < most_rows; rows += GetParam().slow ? 21 : 1) {
    const std::vector<int> lanes = full_lanes(rows);
    const int total = rows + static_cast<int>(lanes.size()) * (taps - 1);
    const std::vector<float> some = run(lanes, extended.view().slice(0, total), weights);
    ASSERT_TRUE(same_bits(some, std::span(all).first(some.size()))) << rows << " rows";
  }
}

using ExtendConformance = OpsConformance;
INSTANTIATE_TEST_SUITE_P(Backends, ExtendConformance,
                         testing::ValuesIn(serving_backends({"extend_with_context"})), backend_name);

TEST_P(ExtendConformance, PutsTheCacheBeforeTheRowsAndKeepsTheLastOnes) {
  Random random(7);
  SCOPED_TRACE(random.trace());
  const int channels = 300, context = 4;
  const std::vector<int> rows{6, 1, 4};  // more than, fewer than and just the context
  const std::vector<int32_t> begins = row_begins(rows), slots{3, 0, 2};
  const Tensor x = random.tensor({begins.back(), channels});
  const Tensor before = random.tensor({5, context, channels});
  const Tensor cache = device(before);
  const Tensor extended = ops().allocate(DType::f32, {begins.back() + 3 * context, channels});
  ops().extend_with_context({begins}, device(x), slots, cache, extended);
  std::vector<float> expected;
  const Tensor expected_cache = host_tensor(before.shape(), Random::values(before));
  for (size_t lane = 0; lane < rows.size(); ++lane) {
    const size_t lane_begin = expected.size();
    std::ranges::copy(Random::values(before.view()[slots[lane]]), std::back_inserter(expected));
    std::ranges::copy(Random::values(x.view().slice(begins[lane], rows[lane])), std::back_inserter(expected));
    const std::span<const float> kept =
        std::span(expected).subspan(lane_begin + static_cast<size_t>(rows[lane]) * channels);
    std::ranges::copy(kept, expected_cache.view()[slots[lane]].f32());
  }
  EXPECT_TRUE(same_bits(host(extended), expected));
  EXPECT_TRUE(same_bits(host(cache), Random::values(expected_cache)));
}

}  // namespace
}  // namespace tutti
