#include "app/timed_ops.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "app/gemm_baseline.hpp"
#include "app/synthetic_model.hpp"
#include "app/treadmill.hpp"
#include "gpu/cpu/cpu_ops.hpp"

namespace tutti {
namespace {

double elements(const TensorView& tensor) { return static_cast<double>(tensor.shape.elements()); }

TEST(LeastWork, OfAProductReadsWeightsRowsAndWhatIsAddedAndWritesRows) {
  const auto ops = make_cpu_ops();
  const auto packed = ops->pack_linear(host_tensor(DType::f32, {5, 4}), host_tensor(DType::f32, {5}));
  const Tensor x = host_tensor(DType::f32, {3, 4});
  const Tensor y = host_tensor(DType::f32, {3, 5});
  const LeastWork alone = least_work::linear(WeightType::fp32, *packed, x, {});
  EXPECT_EQ(alone.flops, 2 * 3 * 4 * 5);
  EXPECT_EQ(alone.bytes, 4 * (20 + 5 + 12 + 15));
  const LeastWork added = least_work::linear(WeightType::bf16, *packed, x, {.residual = y});
  EXPECT_EQ(added.flops, alone.flops);
  EXPECT_EQ(added.bytes, 2 * 20 + 4 * (5 + 12 + 15 + 15));
}

TEST(LeastWork, OfAttentionReadsEachHistoryOnce) {
  const std::vector<int32_t> begins{0, 2, 5};
  const std::vector<int32_t> histories{10, 7};
  PagedKv kv;
  kv.cache_seqlens = histories;
  const Tensor out = host_tensor(DType::f32, {5, 8});
  const LeastWork work = least_work::paged_attention({begins}, kv, out);
  EXPECT_EQ(work.flops, 6 * 8 * (2 * 12 + 3 * 10));
  // Queries, keys, values, stored keys and values and results of 5 rows; 17 cached ones; 12 positions.
  EXPECT_EQ(work.bytes, 4 * 8 * (5 * 6 + 2 * 17 + 12));
}

TEST(LeastWork, OfADecodersAttentionGoesByTheBytesOfItsCache) {
  const std::vector<int32_t> begins{0, 1, 3};
  const std::vector<int32_t> histories{4, 0};
  const Tensor pages = host_tensor(DType::bf16, {2, 8, 2, 4});
  DecoderKv kv{.k = pages, .v = pages, .block_table = {}, .cache_seqlens = histories};
  const Tensor out = host_tensor(DType::f32, {3, 8});
  const LeastWork work = least_work::decoder_self_attention({begins}, kv, out);
  EXPECT_EQ(work.flops, 4 * 8 * (5 + 1 + 2));
  EXPECT_EQ(work.bytes, 4 * 2 * elements(out) + 4 * 3 * 2 * 8 + (5 + 2) * 2 * 8 * 2);
}

/// Two ticks of an engine of three streams.
class TimedOpsOfAnEngine : public testing::Test {
 protected:
  static constexpr int lanes = 3, ticks = 2;

  void run() {
    EngineConfig config;
    config.decoder = "greedy";
    config.max_streams = config.max_batch_size = lanes;
    config.max_tick_ms = 10000;  // so that every tick runs every stream
    const auto model = std::make_shared<const ConformerCtc>(synthetic_checkpoint(spec_), *make_cpu_ops(),
                                                            required_positions(config));
    auto timed = std::make_unique<TimedOps>(make_cpu_ops(), spec_.fbank, WeightType::fp32);
    TimedOps& ops = *timed;
    Engine engine(model, std::move(timed), config);
    const Waveforms speech = make_waveforms(spec_.fbank.sample_rate, 1);
    Treadmill treadmill(engine, lanes, 0, speech);
    for (int i = 0; i < ticks; ++i) {
      (void)treadmill.tick();
      ops.collect();
    }
    times_ = ops.times();
    collected_ = ops.collected();
    seconds_ = ops.seconds();
  }

  [[nodiscard]] const TimedOps::Times& times(std::string_view name) const {
    return *std::ranges::find(times_, name, &TimedOps::Times::name);
  }

  ConformerSpec spec_ = parse_model_size("2x16x24h2v30");
  std::vector<TimedOps::Times> times_;
  int64_t collected_ = 0;
  double seconds_ = 0;
};

TEST_F(TimedOpsOfAnEngine, CountTheWorkOfTheModelsProducts) {
  run();
  double linear = 0;
  for (const TimedOps::Times& each : times_) linear += each.name.starts_with("linear") ? each.work.flops : 0;
  std::vector<TickProduct> products = tick_products(spec_, 16, lanes);
  const std::vector<TickProduct> subsampling(products.begin(), products.begin() + 2);
  products.erase(products.begin(), products.begin() + 2);
  EXPECT_EQ(linear, ticks * flops(products));
  const double first_convolution = 2.0 * lanes * 33 * 39 * 9 * 16;
  EXPECT_EQ(times("subsample").work.flops, ticks * (flops(subsampling) + first_convolution));
}

TEST_F(TimedOpsOfAnEngine, CountCallsAndTellTimesThatAreWithinTheWhole) {
  run();
  EXPECT_EQ(collected_, ticks);
  EXPECT_EQ(times("fbank").calls, ticks);
  EXPECT_EQ(times("attention").calls, ticks * spec_.num_blocks);
  EXPECT_EQ(times("linear 16x24").calls, ticks * 2 * spec_.num_blocks);
  double sum = 0;
  for (const TimedOps::Times& each : times_) {
    EXPECT_GE(each.seconds, 0);
    EXPECT_GT(each.work.bytes, 0) << each.name;
    sum += each.seconds;
  }
  EXPECT_LE(sum, seconds_);
}

}  // namespace
}  // namespace tutti
