#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <tuple>

#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/cuda/packed.hpp"
#include "gpu/cuda/staging.hpp"
#include "gpu/forwarding_ops.hpp"
#include "tests/engine/cuda_fixture.hpp"

namespace tutti {
namespace {

using testing::ElementsAre;

/// Neither repeats work as a whole nor pads batches for it.
class EagerOps final : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  void repeat(int /*kind*/, const std::function<void()>& operations) override { operations(); }
  int most_padded_lanes() const override { return 0; }
};

using Open = std::function<std::unique_ptr<Ops>()>;
std::unique_ptr<Ops> cpu_ops() { return make_cpu_ops(); }

std::shared_ptr<const ConformerCtc> load(const std::string& directory, const Open& open,
                                         const EngineConfig& config) {
  const auto ops = open();
  return load(directory, *ops, config);
}

/// What each speaker's stream says; all share an engine.
std::vector<Said> recognize(Engine& engine, std::span<const std::vector<float>> speakers) {
  std::vector<StreamKey> keys;
  for (size_t i = 0; i < speakers.size(); ++i) keys.push_back(engine.admit({}).value());
  std::vector<Said> said(speakers.size());
  const auto listen = [&](const Update& update) {
    for (size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] == update.key) said[i].add(update);
    }
  };
  for (size_t i = 0; i < speakers.size(); ++i) must(engine.feed(keys[i], speakers[i]));
  run_until_idle(engine, listen);
  for (const StreamKey key : keys) must(engine.finish(key));
  run_until_idle(engine, listen);
  return said;
}

void expect_same_words(const Said& actual, const Said& expected) {
  ASSERT_EQ(actual.events.size(), expected.events.size());
  for (size_t i = 0; i < actual.events.size(); ++i) {
    EXPECT_EQ(actual.events[i].text, expected.events[i].text);
    EXPECT_EQ(actual.events[i].end_sample, expected.events[i].end_sample);
    EXPECT_NEAR(actual.events[i].confidence, expected.events[i].confidence, 1e-4);
  }
}

class CudaEngine : public testing::TestWithParam<Gpus> {
 protected:
  void SetUp() override {
    if (!GetParam().absent.empty()) GTEST_SKIP() << GetParam().absent;
  }
  static std::unique_ptr<Ops> cuda_ops() { return make_cuda_ops(*GetParam().api, 0); }
};
INSTANTIATE_TEST_SUITE_P(Gpus, CudaEngine, testing::ValuesIn(all_gpus()),
                         [](const auto& gpus) { return gpus.param.name; });

TEST_P(CudaEngine, TranscribesSpeechWithTheBundledModel) {
  EngineConfig config = greedy_config();
  config.max_streams = config.max_batch_size = 2;
  config.max_position_frames = 100;
  Engine engine(load("tutti-en-mini", cuda_ops, config), cuda_ops(), config);
  const std::vector<std::vector<float>> speakers{clip("16k/digit-34.flac"), clip("16k/digit-37.flac")};
  const std::vector<Said> said = recognize(engine, speakers);
  for (size_t i = 0; i < speakers.size(); ++i) {
    const auto cpu = make_engine();
    expect_same_words(said[i], recognize_alone(*cpu, speakers[i], speakers[i].size()));
  }
  EXPECT_THAT(said[0].final_texts(), ElementsAre("FOUR"));
}

TEST_P(CudaEngine, GivesAStreamTheSameBitsAloneAndInACrowdWhoseTicksAreRepeatedAndTheCpusWords) {
  const EngineConfig config = short_chunks("prefix");
  const auto model = load("conformer-bn-tiny", cuda_ops, config);
  const std::vector<std::vector<float>> speakers{speech(16000, 11000), speech(40000, 6000),
                                                 speech(24000, 9000)};
  Engine crowd(model, cuda_ops(), config);
  const std::vector<Said> said = recognize(crowd, speakers);
  EXPECT_GT(crowd.stats().device.repeats, 0);
  Engine solo(model, std::make_unique<EagerOps>(cuda_ops()), config);
  EXPECT_EQ(recognize(solo, std::span(speakers).first(1))[0].events, said[0].events);
  Engine cpu(load("conformer-bn-tiny", cpu_ops, config), cpu_ops(), config);
  const std::vector<Said> expected = recognize(cpu, speakers);
  for (size_t i = 0; i < speakers.size(); ++i) expect_same_words(said[i], expected[i]);
}

TEST_P(CudaEngine, RescoresFinalsAsTheCpuDoes) {
  const EngineConfig config = short_chunks("rescore");
  Engine engine(load("conformer-u2pp-tiny", cuda_ops, config), cuda_ops(), config);
  Engine cpu(load("conformer-u2pp-tiny", cpu_ops, config), cpu_ops(), config);
  const std::vector<std::vector<float>> speakers{speech(16000, 8000)};
  expect_same_words(recognize(engine, speakers)[0], recognize(cpu, speakers)[0]);
  EXPECT_EQ(engine.stats().rescored_segments, 1);
}

TEST_P(CudaEngine, GoesOnWithoutGraphsWhereTheDeviceCannotRecord) {
  const EngineConfig config = short_chunks("prefix");
  const auto model = load("conformer-bn-tiny", cuda_ops, config);
  const std::vector<std::vector<float>> speakers{speech(16000, 11000)};
  static const cuda::PluginApi* able = nullptr;
  able = GetParam().api;
  cuda::PluginApi full = *able;
  full.finish_recording = [](cuda::Queue* queue, cuda::Graph** graph) {
    const int error = able->finish_recording(queue, graph);
    able->release_graph(std::exchange(*graph, nullptr));
    return error != 0 ? error : 2;
  };
  Engine without(model, make_cuda_ops(full, 0), config);
  Engine with(model, cuda_ops(), config);
  EXPECT_EQ(recognize(without, speakers)[0].events, recognize(with, speakers)[0].events);
  EXPECT_GT(with.stats().device.repeats, 0);
  EXPECT_EQ(without.stats().device.repeats, 0);
  EXPECT_EQ(without.stats().device.eager, without.stats().ticks);
}

TEST_P(CudaEngine, IsWarmBeforeItsFirstTickAndRecognizesAsIfItWereNot) {
  const EngineConfig config = short_chunks("prefix");
  const auto model = load("conformer-bn-tiny", cuda_ops, config);
  const std::vector<std::vector<float>> speakers{speech(16000, 7000), speech(40000, 4000)};
  Engine warm(model, cuda_ops(), config);
  warm.warm_up();
  const DeviceUse before = warm.stats().device;
  EXPECT_EQ(before.eager, 3) << "of 1, 2 and 4 lanes";
  EXPECT_EQ(before.repeats, 3);
  EXPECT_EQ(warm.kv_blocks_used(), 0);
  const auto said = recognize(warm, speakers);
  EXPECT_GT(warm.stats().device.repeats, before.repeats);
  const int64_t unusual = warm.stats().device.eager - before.eager;
  Engine cold(model, cuda_ops(), config);
  EXPECT_EQ(recognize(cold, speakers), said);
  EXPECT_LT(unusual, cold.stats().device.eager);
}

TEST_P(CudaEngine, AdvancesAllStreamsThatAreReadyHoweverLongATickTakes) {
  EngineConfig config = short_chunks("greedy");
  config.max_tick_ms = 1;
  Engine engine(load("conformer-bn-tiny", cuda_ops, config), cuda_ops(), config);
  const std::vector<std::vector<float>> speakers(3, speech(16000, 7000));
  static_cast<void>(recognize(engine, speakers));
  EXPECT_EQ(engine.stats().lanes, 3 * engine.stats().ticks);
}

using GpusAndType = std::tuple<Gpus, cuda::MatrixType>;

/// Matrices multiplied in one of the types.
class CudaEngineInType : public testing::TestWithParam<GpusAndType> {
 protected:
  void SetUp() override {
    const auto& [gpus, type] = GetParam();
    if (!gpus.absent.empty()) GTEST_SKIP() << gpus.absent;
    int can = 0;
    cuda::check(*gpus.api, gpus.api->kernels.can_multiply(0, type, &can), "tell what it multiplies");
    if (can == 0) GTEST_SKIP() << "the GPU does not multiply in this type";
  }
  static std::unique_ptr<Ops> cuda_ops() { return make_cuda_ops(*std::get<0>(GetParam()).api, 0); }
  static std::unique_ptr<Ops> ops() {
    return make_cuda_ops(*std::get<0>(GetParam()).api, 0, std::get<1>(GetParam()));
  }
};

std::string type_name(const testing::TestParamInfo<GpusAndType>& info) {
  const auto& [gpus, type] = info.param;
  return gpus.name + "_" + std::string(cuda::matrix_type_name(type));
}

INSTANTIATE_TEST_SUITE_P(Types, CudaEngineInType,
                         testing::Combine(testing::ValuesIn(all_gpus()),
                                          testing::Values(cuda::MatrixType::bf16, cuda::MatrixType::f16,
                                                          cuda::MatrixType::f8e4m3, cuda::MatrixType::int8)),
                         type_name);

TEST_P(CudaEngineInType, GivesAStreamTheSameBitsAloneAndInACrowdWhoseTicksAreRepeated) {
  const EngineConfig config = short_chunks("prefix");
  const auto model = load("conformer-bn-tiny", ops, config);
  const std::vector<std::vector<float>> speakers{speech(16000, 11000), speech(40000, 6000),
                                                 speech(24000, 9000)};
  Engine crowd(model, ops(), config);
  const std::vector<Said> said = recognize(crowd, speakers);
  EXPECT_GT(crowd.stats().device.repeats, 0);
  Engine solo(model, std::make_unique<EagerOps>(ops()), config);
  EXPECT_EQ(recognize(solo, std::span(speakers).first(1))[0].events, said[0].events);
}

TEST_P(CudaEngineInType, HearsTheWordsThatFp32Hears) {
  EngineConfig config = greedy_config();
  config.max_streams = config.max_batch_size = 2;
  config.max_position_frames = 100;
  Engine engine(load("tutti-en-mini", ops, config), ops(), config);
  const std::vector<std::vector<float>> speakers{clip("16k/digit-34.flac"), clip("16k/digit-37.flac")};
  const std::vector<Said> said = recognize(engine, speakers);
  for (size_t i = 0; i < speakers.size(); ++i) {
    const auto cpu = make_engine();
    EXPECT_EQ(said[i].final_texts(), recognize_alone(*cpu, speakers[i], speakers[i].size()).final_texts());
  }
}

/// One of those that need no scratch memory, and one of those that do.
class CudaEngineInAType : public CudaEngineInType {};
INSTANTIATE_TEST_SUITE_P(Types, CudaEngineInAType,
                         testing::Combine(testing::ValuesIn(all_gpus()),
                                          testing::Values(cuda::MatrixType::f32, cuda::MatrixType::int8)),
                         type_name);

TEST_P(CudaEngineInAType, WaitsOnceATickAndAllocatesNoDeviceMemory) {
  const EngineConfig config = short_chunks("prefix");
  // As in a server, where the Ops that packs is not the one that computes.
  Engine engine(load("conformer-bn-tiny", ops, config), cuda_ops(), config);
  const std::vector<StreamKey> keys{engine.admit({}).value(), engine.admit({}).value()};
  const std::vector<float> samples = speech(16000, 9000);
  const DeviceUse before = engine.stats().device;
  for (const StreamKey key : keys) must(engine.feed(key, samples));
  run_until_idle(engine, [](const Update&) {});
  ASSERT_GE(engine.stats().ticks, 2);
  EXPECT_EQ(engine.stats().device.waits - before.waits, engine.stats().ticks);
  EXPECT_EQ(engine.stats().device.allocations - before.allocations, 0);
  // All but the first, which shows what there is to repeat.
  EXPECT_EQ(engine.stats().device.repeats, engine.stats().ticks - 1);
  EXPECT_EQ(engine.stats().device.eager, 1);
  EXPECT_GT(engine.stats().device.seconds, before.seconds);
}

}  // namespace
}  // namespace tutti
