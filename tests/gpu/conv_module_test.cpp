#include "gpu/cpu/conv_module.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/gpu/conv_weights.hpp"
#include "tests/gpu/every_target.hpp"
#include "tests/gpu/references.hpp"

namespace tutti {
namespace {

constexpr float eps = 1e-5F;

Tensor run(const std::vector<int>& rows, const TensorView& extended, const ConvWeights& weights) {
  const auto channels = static_cast<int>(weights.depthwise_weight.shape()[0]);
  const auto taps = static_cast<int>(weights.depthwise_weight.shape()[1]);
  const std::vector<int32_t> begins = row_begins(rows);
  Tensor out = host_tensor(DType::f32, {begins.back(), channels});
  std::vector<float> scratch(cpu::conv_module_scratch_floats(channels, taps), NAN);
  cpu::conv_module({begins}, extended, weights.view(), eps, out, scratch);
  return out;
}

class ConvModuleTest : public testing::TestWithParam<bool> {};

TEST_P(ConvModuleTest, MatchesADoubleReferenceForLanesOfAnyLength) {
  for (const int channels : {64, 72, 128, 250, 256}) {
    for (const int taps : {1, 7, 15, 31}) {
      Random random(static_cast<uint64_t>(channels * 100 + taps));
      SCOPED_TRACE(random.trace());
      const ConvWeights weights = random_conv_weights(random, channels, taps, GetParam());
      const std::vector<int> rows{random.between(1, 70), 1, random.between(1, 70), 16};
      const std::vector<int32_t> begins = row_begins(rows);
      const Tensor extended = random.tensor({begins.back() + 4 * (taps - 1), 2 * channels}, 2.0F);
      on_every_target([&] {
        const Tensor out = run(rows, extended, weights);
        for (int lane = 0; lane < 4; ++lane) {
          const size_t i = static_cast<size_t>(lane);
          const TensorView lane_rows =
              extended.view().slice(begins[i] + lane * (taps - 1), rows[i] + taps - 1);
          EXPECT_TRUE(close_to(Random::values(out.view().slice(begins[i], rows[i])),
                               reference::conv_lane(lane_rows, weights.view(), eps), 4e-6))
              << channels << " channels, " << taps << " taps, lane " << lane;
        }
      });
    }
  }
}

TEST_P(ConvModuleTest, GivesALaneTheSameBitsAloneAndInACrowd) {
  Random random(5);
  const int channels = 72, taps = 15;
  const ConvWeights weights = random_conv_weights(random, channels, taps, GetParam());
  const std::vector<int> rows{3, 16, 1, 40, 17};
  const std::vector<int32_t> begins = row_begins(rows);
  const Tensor extended = random.tensor({begins.back() + 5 * (taps - 1), 2 * channels});
  const Tensor crowd = run(rows, extended, weights);
  for (int lane = 0; lane < 5; ++lane) {
    const size_t i = static_cast<size_t>(lane);
    const TensorView lane_rows = extended.view().slice(begins[i] + lane * (taps - 1), rows[i] + taps - 1);
    const Tensor alone = run({rows[i]}, lane_rows, weights);
    EXPECT_TRUE(same_bits(Random::values(alone), Random::values(crowd.view().slice(begins[i], rows[i]))))
        << "lane " << lane;
  }
}

TEST_P(ConvModuleTest, GivesARowTheSameBitsInOneChunkAndInSeveral) {
  Random random(6);
  const int channels = 64, taps = 7;
  const ConvWeights weights = random_conv_weights(random, channels, taps, GetParam());
  const Tensor extended = random.tensor({50 + taps - 1, 2 * channels});
  const Tensor whole = run({50}, extended, weights);
  for (int begin = 0; begin < 50; begin += 5) {
    const Tensor part = run({5}, extended.view().slice(begin, 5 + taps - 1), weights);
    EXPECT_TRUE(same_bits(Random::values(part), Random::values(whole.view().slice(begin, 5)))) << begin;
  }
}

INSTANTIATE_TEST_SUITE_P(Norms, ConvModuleTest, testing::Bool(),
                         [](const auto& is) { return is.param ? "FoldedBatchNorm" : "LayerNorm"; });

TEST(ExtendWithContext, PutsTheCacheBeforeTheRowsAndKeepsTheLastOnes) {
  Random random(7);
  const int channels = 5, context = 4;
  const std::vector<int> rows{6, 1, 4};  // more than, fewer than and just the context
  const std::vector<int32_t> begins = row_begins(rows), slots{3, 0, 2};
  const Tensor x = random.tensor({begins.back(), channels});
  const Tensor cache = random.tensor({5, context, channels});
  const Tensor before = host_tensor(cache.shape(), Random::values(cache));
  const Tensor extended = host_tensor(DType::f32, {begins.back() + 3 * context, channels});
  cpu::extend_with_context({begins}, x, slots, cache, extended);
  for (int lane = 0; lane < 3; ++lane) {
    const auto i = static_cast<size_t>(lane);
    const TensorView lane_rows = extended.view().slice(begins[i] + lane * context, context + rows[i]);
    const auto same = [](const TensorView& a, const TensorView& b) {
      return same_bits(Random::values(a), Random::values(b));
    };
    EXPECT_TRUE(same(lane_rows.slice(0, context), before.view()[slots[i]])) << "lane " << lane;
    EXPECT_TRUE(same(lane_rows.slice(context, rows[i]), x.view().slice(begins[i], rows[i])));
    EXPECT_TRUE(same(lane_rows.slice(rows[i], context), cache.view()[slots[i]]));
  }
  for (const int other : {1, 4}) {
    EXPECT_TRUE(same_bits(Random::values(cache.view()[other]), Random::values(before.view()[other])));
  }
}

}  // namespace
}  // namespace tutti
