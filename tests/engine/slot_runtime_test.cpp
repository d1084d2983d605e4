#include "engine/slot_runtime.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "config/result.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/forwarding_ops.hpp"
#include "recurrent_encoder.hpp"
#include "stateful_runtime.hpp"
#include "tests/cache/throws.hpp"
#include "tests/gpu/random_tensor.hpp"

namespace tutti {
namespace {

using Encoder = RecurrentEncoder;
constexpr int max_streams = 8;
constexpr int max_batch = 6;

/// Counts the lanes that reach the encoder.
class LaneCountingOps final : public ForwardingOps {
 public:
  LaneCountingOps(std::unique_ptr<Ops> inner, std::vector<int>& widths)
      : ForwardingOps(std::move(inner)), widths_(widths) {}
  void cmvn(const BatchLayout& layout, std::span<const float* const> features, const TensorView& mean,
            const TensorView& istd, const TensorView& out) override {
    widths_.push_back(layout.lanes());
    ForwardingOps::cmvn(layout, features, mean, istd, out);
  }

 private:
  std::vector<int>& widths_;
};

template <class Runtime = SlotRuntime, class... Sizes>
Runtime make_runtime(std::optional<int> default_prompt, Sizes... sizes) {
  auto ops = make_cpu_ops();
  auto encoder = std::make_shared<const Encoder>(*ops, default_prompt);
  return Runtime(std::move(encoder), std::move(ops), sizes...);
}

SlotRuntime runtime_with_prompts(int default_prompt = 0, int lanes = max_batch) {
  return make_runtime(default_prompt, max_streams, lanes);
}

/// The windows of some streams.
class Speech {
 public:
  explicit Speech(Random& random, int streams = max_streams, int windows = 12) {
    for (int i = 0; i < streams; ++i)
      streams_.push_back(random.tensor({windows, Encoder::window, Encoder::mel}));
  }
  [[nodiscard]] SlotLane lane(int stream, int window, int slot) const {
    return {.slot = slot, .features = streams_[static_cast<size_t>(stream)].view()[window]};
  }
  [[nodiscard]] SlotLane lane(int stream, int window) const { return lane(stream, window, stream); }

 private:
  std::vector<Tensor> streams_;
};

std::vector<float> copy_of(const TensorView& view) {
  return {view.f32(), view.f32() + view.shape.elements()};
}

template <class Runtime>
std::vector<float> forward_one(Runtime& runtime, const SlotLane& lane) {
  return copy_of(runtime.forward({&lane, 1}));
}

/// What a stream by itself gives, window after window.
std::vector<std::vector<float>> run_alone(const Speech& speech, int stream, int windows, int prompt) {
  SlotRuntime runtime = make_runtime(prompt, 1, 1);
  runtime.allocate_stream(0);
  std::vector<std::vector<float>> outputs;
  for (int w = 0; w < windows; ++w) outputs.push_back(forward_one(runtime, speech.lane(stream, w, 0)));
  return outputs;
}

std::vector<int32_t> some_of(Random& random, int streams, int most) {
  std::vector<int32_t> chosen = random.permutation(streams);
  chosen.resize(static_cast<size_t>(random.between(1, most)));
  return chosen;
}

TEST(SlotRuntime, GivesAStreamTheSameBitsAloneAndInBatchesOfAnyPaddedWidth) {
  Random random(1);
  SCOPED_TRACE(random.trace());
  const Speech speech(random);
  SlotRuntime runtime = runtime_with_prompts();
  std::vector<std::vector<std::vector<float>>> expected;
  for (int stream = 0; stream < max_streams; ++stream) {
    const int prompt = stream % Encoder::prompts;
    expected.push_back(run_alone(speech, stream, 12, prompt));
    runtime.allocate_stream(stream, std::array{StreamConditioning{"prompt", static_cast<double>(prompt)}});
  }
  std::array<int, max_streams> next{};
  for (int tick = 0; tick < 30; ++tick) {
    std::vector<SlotLane> lanes;
    for (const int32_t stream : some_of(random, max_streams, max_batch)) {
      if (next[static_cast<size_t>(stream)] == 12) continue;
      lanes.push_back(speech.lane(stream, next[static_cast<size_t>(stream)]++));
    }
    if (lanes.empty()) continue;
    const TensorView out = runtime.forward(lanes);
    ASSERT_EQ(out.shape, (Shape{static_cast<int64_t>(lanes.size()), Encoder::chunk_frames, Encoder::dim}));
    for (size_t i = 0; i < lanes.size(); ++i) {
      const auto stream = static_cast<size_t>(lanes[i].slot);
      EXPECT_TRUE(same_bits(Random::values(out[static_cast<int64_t>(i)]),
                            expected[stream][static_cast<size_t>(next[stream]) - 1]))
          << "stream " << stream << ", lane " << i << " of " << lanes.size();
    }
  }
}

TEST(SlotRuntime, ComputesWhatSeparateStateListsDo) {
  Random random(2);
  SCOPED_TRACE(random.trace());
  const Speech speech(random);
  SlotRuntime runtime = make_runtime(std::nullopt, max_streams, max_batch);
  auto stateful = make_runtime<StatefulRuntime>(std::nullopt, max_batch);
  for (int slot = 0; slot < max_streams; ++slot) runtime.allocate_stream(slot);
  for (int tick = 0; tick < 12; ++tick) {
    std::vector<SlotLane> lanes;
    for (const int32_t s : some_of(random, max_streams, max_batch)) lanes.push_back(speech.lane(s, tick));
    const std::vector<float> ours = copy_of(runtime.forward(lanes));
    EXPECT_TRUE(same_bits(ours, copy_of(stateful.forward(lanes)))) << "tick " << tick;
  }
}

TEST(SlotRuntime, PadsABatchToAPowerOfTwoOrItsGreatestWidth) {
  Random random(3);
  const Speech speech(random);
  std::vector<int> widths;
  auto ops = std::make_unique<LaneCountingOps>(make_cpu_ops(), widths);
  auto encoder = std::make_shared<const Encoder>(*ops);
  SlotRuntime runtime(std::move(encoder), std::move(ops), max_streams, max_batch);
  std::vector<SlotLane> lanes;
  for (int slot = 0; slot < max_batch; ++slot) {
    runtime.allocate_stream(slot);
    lanes.push_back(speech.lane(slot, 0));
    EXPECT_EQ(runtime.forward(lanes).rows(), slot + 1);
  }
  EXPECT_EQ(widths, (std::vector<int>{1, 2, 4, 4, 6, 6}));
}

TEST(SlotRuntime, PaddingLanesChangeTheScratchSlotAndNoStream) {
  Random random(4);
  SCOPED_TRACE(random.trace());
  const Speech speech(random);
  SlotRuntime runtime = runtime_with_prompts();
  for (int slot = 0; slot < max_streams; ++slot) {
    runtime.allocate_stream(slot);
    (void)forward_one(runtime, speech.lane(slot, 0));
  }
  const SlotStateCache& states = runtime.states();
  const auto slot_bytes = [&](size_t state, int32_t slot) {
    const StreamStateSpec& spec = states.specs()[state];
    const Tensor one = host_tensor(spec.dtype, spec.shape.with_axis(spec.slot_axis, 1));
    runtime.ops().index_select(states.buffer(state), spec.slot_axis, {&slot, 1}, one);
    return std::vector<std::byte>(one.view().data, one.view().data + one.bytes());
  };
  const auto snapshot = [&](int32_t slot) {
    std::vector<std::vector<std::byte>> all;
    for (size_t state = 0; state < states.specs().size(); ++state) all.push_back(slot_bytes(state, slot));
    return all;
  };
  std::vector<std::vector<std::vector<std::byte>>> before;
  for (int32_t slot = 0; slot <= max_streams; ++slot) before.push_back(snapshot(slot));
  const std::vector<SlotLane> lanes{speech.lane(5, 1), speech.lane(1, 1), speech.lane(6, 1)};
  (void)runtime.forward(lanes);
  for (int32_t slot = 0; slot <= max_streams; ++slot) {
    const bool written = slot == 5 || slot == 1 || slot == 6 || slot == states.scratch_slot();
    EXPECT_EQ(snapshot(slot) != before[static_cast<size_t>(slot)], written) << "slot " << slot;
  }
}

TEST(SlotRuntime, FillsALastShortWindowWithTheEncodersPadValue) {
  Random random(5);
  const Speech speech(random);
  for (int frames = 2; frames < Encoder::window; ++frames) {
    SlotRuntime runtime = runtime_with_prompts();
    runtime.allocate_stream(0);
    runtime.allocate_stream(1);
    const Tensor whole =
        host_tensor({Encoder::window, Encoder::mel},
                    std::vector<float>(size_t{Encoder::window} * Encoder::mel, Encoder::pad_value));
    const TensorView given = speech.lane(0, 0).features.slice(0, frames);
    std::copy_n(given.f32(), given.shape.elements(), whole.view().f32());
    const std::vector<SlotLane> lanes{{.slot = 0, .features = given}, {.slot = 1, .features = whole}};
    const TensorView out = runtime.forward(lanes);
    EXPECT_TRUE(same_bits(Random::values(out[0]), Random::values(out[1]))) << frames << " frames";
  }
}

TEST(SlotRuntime, AResetStreamComputesWhatAFreshOneOfItsConditioningDoes) {
  Random random(6);
  const Speech speech(random);
  SlotRuntime runtime = runtime_with_prompts();
  runtime.allocate_stream(3, std::array{StreamConditioning{"prompt", 2}});
  for (int w = 0; w < 5; ++w) (void)forward_one(runtime, speech.lane(0, w, 3));
  runtime.reset_stream(3);
  const auto fresh = run_alone(speech, 1, 4, 2);
  const auto other_prompt = run_alone(speech, 1, 4, 0);
  for (int w = 0; w < 4; ++w) {
    const std::vector<float> out = forward_one(runtime, speech.lane(1, w, 3));
    EXPECT_TRUE(same_bits(out, fresh[static_cast<size_t>(w)])) << "window " << w;
    EXPECT_FALSE(same_bits(out, other_prompt[static_cast<size_t>(w)])) << "the prompt makes no difference";
  }
}

TEST(SlotRuntime, AFreedSlotsNextStreamIsAFreshOne) {
  Random random(7);
  const Speech speech(random);
  SlotRuntime runtime = runtime_with_prompts(1);
  runtime.allocate_stream(3, std::array{StreamConditioning{"prompt", 2}});
  (void)forward_one(runtime, speech.lane(0, 0, 3));
  runtime.free_stream(3);
  runtime.allocate_stream(3);
  EXPECT_TRUE(same_bits(forward_one(runtime, speech.lane(1, 0, 3)), run_alone(speech, 1, 1, 1)[0]));
}

TEST(SlotRuntime, ARefusedConditioningLeavesTheSlotFree) {
  SlotRuntime runtime = runtime_with_prompts();
  const auto allocate = [&](StreamConditioning asked) { runtime.allocate_stream(0, std::array{asked}); };
  expect_throws<std::out_of_range>([&] { allocate({"accent", 1}); }, "accent", "prompt");
  expect_throws<std::invalid_argument>([&] { allocate({"prompt", 0.5}); }, "prompt", "0.5");
  expect_throws<std::invalid_argument>([&] { allocate({"recent", 1}); }, "recent", "not persistent");
  runtime.allocate_stream(0);
}

TEST(SlotRuntime, AnEncoderWithConditioningIsRefusedWhereItWouldNotBeWritten) {
  expect_throws<SetupError>([] { (void)make_runtime<StatefulRuntime>(0, max_batch); }, "stateful runtime",
                            "prompt");
}

TEST(SlotRuntime, RefusesABatchThatItCannotRunAndChangesNothing) {
  Random random(8);
  const Speech speech(random);
  SlotRuntime runtime = runtime_with_prompts();
  runtime.allocate_stream(0);
  const auto forward = [&](const std::vector<SlotLane>& lanes) { (void)runtime.forward(lanes); };
  const SlotLane good = speech.lane(0, 0);
  SlotLane bad = good;
  expect_throws<std::invalid_argument>([&] { forward({}); }, "0 lanes", "1 to 6");
  expect_throws<std::invalid_argument>([&] { forward(std::vector<SlotLane>(7, good)); }, "7 lanes", "1 to 6");
  expect_throws<std::invalid_argument>([&] { forward({good, good}); }, "slot 0", "two lanes");
  expect_throws<UnknownStream>([&] { forward({good, speech.lane(1, 0)}); }, "slot 1");
  expect_throws<UnknownStream>([&] { forward({speech.lane(0, 0, runtime.states().max_streams() + 1)}); },
                               "slot 9");
  for (const int frames : {1, Encoder::window + 1}) {
    const Tensor window = host_tensor(DType::f32, {frames, Encoder::mel});
    bad.features = window;
    expect_throws<std::invalid_argument>([&] { forward({bad}); }, "slot 0", "2 to 8");
  }
  EXPECT_TRUE(same_bits(forward_one(runtime, good), run_alone(speech, 0, 1, 0)[0]));
}

TEST(SlotRuntime, RefusesSizesWithoutRoom) {
  expect_throws<std::invalid_argument>([] { (void)make_runtime(0, 1, 0); }, "max_batch_size = 0");
  expect_throws<std::invalid_argument>([] { (void)make_runtime(0, 0, 1); }, "0 streams");
}

}  // namespace
}  // namespace tutti
