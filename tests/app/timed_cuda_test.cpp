// Where a tick's time goes on a GPU, whose kernels are executed on the host: events of the device around each
// operation, by a clock that counts what is done.
#include <gtest/gtest.h>

#include <algorithm>

#include "app/synthetic_model.hpp"
#include "app/timed_ops.hpp"
#include "app/treadmill.hpp"
#include "gpu/cuda/cuda_ops.hpp"
#include "tests/gpu/cuda_host/api.hpp"

namespace tutti {
namespace {

/// The host form's, of a GPU that never runs out of work.
const cuda::PluginApi& busy_gpu() {
  static const cuda::PluginApi busy = [] {
    cuda::PluginApi api = cuda::host::api();
    api.reached = [](cuda::Event*, int* yes) { return *yes = 0; };
    return api;
  }();
  return busy;
}

TEST(TimedCudaOps, TimeEachOperationOfATickWithOneWaitForAll) {
  constexpr int lanes = 2, ticks = 3;
  const ConformerSpec spec = parse_model_size("2x16x24h2v30");
  EngineConfig config;
  config.decoder = "greedy";
  config.max_streams = config.max_batch_size = lanes;
  config.max_position_frames = 300;
  config.max_tick_ms = 10000;  // so that every tick runs every stream
  const auto model = std::make_shared<const ConformerCtc>(
      synthetic_checkpoint(spec), *make_cuda_ops(busy_gpu(), 0), required_positions(config));
  auto timed = std::make_unique<TimedOps>(make_cuda_ops(busy_gpu(), 0), spec.fbank, WeightType::fp32);
  TimedOps& ops = *timed;
  Engine engine(model, std::move(timed), config);
  const Waveforms speech = make_waveforms(spec.fbank.sample_rate, 1);
  Treadmill treadmill(engine, lanes, 0, speech);
  for (int i = 0; i < ticks; ++i) {
    const int64_t waits = engine.stats().device.waits;
    (void)treadmill.tick();
    ops.collect();
    EXPECT_EQ(engine.stats().device.waits - waits, 1);
    EXPECT_EQ(ops.collected(), i + 1);
  }
  const auto steps_of_a_call = [&](std::string_view name) {
    const TimedOps::Times& times = *std::ranges::find(ops.times(), name, &TimedOps::Times::name);
    return 1000 * times.seconds / static_cast<double>(times.calls);
  };
  // A kernel, and the mark before it.
  EXPECT_NEAR(steps_of_a_call("layer norm"), 2, 1e-3);
  EXPECT_NEAR(steps_of_a_call("linear 16x24"), 2, 1e-3);
  EXPECT_NEAR(steps_of_a_call("log-softmax"), 2, 1e-3);
  // And a copy of what says whose rows they are.
  EXPECT_NEAR(steps_of_a_call("search"), 3, 1e-3);
}

}  // namespace
}  // namespace tutti
