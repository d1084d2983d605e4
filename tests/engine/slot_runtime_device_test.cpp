// The slot runtime over a device whose memory the host cannot read: the CUDA backend, its kernels executed on
// the host no sooner than somebody waits.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "engine/slot_runtime.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/cuda/cuda_ops.hpp"
#include "tests/gpu/cuda_host/api.hpp"
#include "tests/gpu/random_tensor.hpp"

namespace tutti {
namespace {

/// A frame a window: a layer over the window and the frames before it, and a recurrent one. Nothing but Ops
/// touches what it computes with.
class DeviceEncoder final : public SlotEncoder {
 public:
  static constexpr int mel = 5, dim = 12, tail_frames = 2, window = 8;
  static constexpr int width = (tail_frames + window) * mel;

  explicit DeviceEncoder(Ops& ops)
      : specs_{{.name = "tail", .shape = {tail_frames, mel}}, {.name = "memory", .shape = {dim}}} {
    Random random(31);
    mean_ = ops.upload(random.tensor({mel}));
    istd_ = ops.upload(random.tensor({mel}));
    embedding_ = ops.pack_linear(random.tensor({dim, width}, 0.1F), random.tensor({dim}));
    recurrence_ = ops.pack_linear(random.tensor({dim, dim}, 0.2F), random.tensor({dim}));
  }

  std::span<const StreamStateSpec> slot_state_specs() const override { return specs_; }
  std::span<const StreamConditioning> stream_conditioning() const override { return {}; }
  StreamingGeometry geometry() const override {
    return {.window = window, .stride = window, .min_frames = 2, .subsampling = window};
  }
  int num_mel_bins() const override { return mel; }
  float streaming_pad_value() const override { return -1.5F; }

  std::unique_ptr<Workspace> make_workspace(Ops& ops, int lanes) const override {
    auto made = std::make_unique<Activations>();
    made->features = ops.allocate(DType::f32, {lanes * window, mel});
    made->extended = ops.allocate(DType::f32, {lanes, width});
    made->out = ops.allocate(DType::f32, {lanes, 1, dim});
    made->row_begin.resize(static_cast<size_t>(lanes) + 1);
    for (size_t i = 0; i < made->row_begin.size(); ++i) made->row_begin[i] = static_cast<int32_t>(i) * window;
    made->lane_numbers.resize(static_cast<size_t>(lanes));
    std::iota(made->lane_numbers.begin(), made->lane_numbers.end(), 0);
    return made;
  }

  TensorView forward_chunk(Ops& ops, Workspace& workspace, const SlotBatch& batch) const override {
    auto& ws = static_cast<Activations&>(workspace);
    const auto lanes = static_cast<size_t>(batch.lanes());
    const BatchLayout layout{std::span(ws.row_begin).first(lanes + 1)};
    const TensorView features = ws.features.view().slice(0, layout.rows());
    const TensorView extended = ws.extended.view().slice(0, batch.lanes());
    const TensorView out = ws.out.view().slice(0, batch.lanes());
    const TensorView rows{out.data, DType::f32, {batch.lanes(), dim}};
    ops.cmvn(layout, batch.features, mean_, istd_, features);
    ops.extend_with_context(
        layout, features, std::span(ws.lane_numbers).first(lanes), batch.states[0],
        {extended.data, DType::f32, {int64_t{batch.lanes()} * (tail_frames + window), mel}});
    ops.linear(*embedding_, extended, {.activation = Activation::swish, .residual = batch.states[1]}, rows);
    ops.linear(*recurrence_, rows, {.activation = Activation::swish}, batch.states[1]);
    return out;
  }

 private:
  struct Activations final : Workspace {
    Tensor features, extended, out;
    std::vector<int32_t> row_begin, lane_numbers;
  };
  std::vector<StreamStateSpec> specs_;
  Tensor mean_, istd_;
  std::shared_ptr<const PackedLinear> embedding_, recurrence_;
};

std::unique_ptr<Ops> cuda_ops() { return make_cuda_ops(cuda::host::api(), 0); }

constexpr int streams = 5;

SlotRuntime make_runtime(std::unique_ptr<Ops> ops, int lanes = streams) {
  auto encoder = std::make_shared<const DeviceEncoder>(*ops);
  return {std::move(encoder), std::move(ops), streams, lanes};
}

/// Windows of every stream, in host memory: the last ones are short.
std::vector<std::vector<Tensor>> some_speech(int windows) {
  Random random(32);
  std::vector<std::vector<Tensor>> speech(streams);
  for (std::vector<Tensor>& stream : speech) {
    for (int w = 0; w < windows; ++w) {
      const int frames = w + 1 < windows ? DeviceEncoder::window : random.between(2, DeviceEncoder::window);
      stream.push_back(random.tensor({frames, DeviceEncoder::mel}));
    }
  }
  return speech;
}

/// What the streams in `slots` give for their windows, side by side: by window, then by stream.
std::vector<std::vector<float>> run(SlotRuntime& runtime, const std::vector<std::vector<Tensor>>& speech,
                                    const std::vector<int32_t>& slots) {
  for (const int32_t slot : slots) runtime.allocate_stream(slot);
  std::vector<std::vector<float>> outputs;
  for (size_t w = 0; w < speech.front().size(); ++w) {
    std::vector<Tensor> windows;
    std::vector<SlotLane> lanes;
    for (const int32_t slot : slots) {
      windows.push_back(runtime.ops().upload(speech[static_cast<size_t>(slot)][w]));
      lanes.push_back({.slot = slot, .features = windows.back()});
    }
    const TensorView out = runtime.forward(lanes);
    outputs.emplace_back(static_cast<size_t>(out.shape.elements()));
    runtime.ops().download(out, outputs.back());
  }
  for (const int32_t slot : slots) runtime.free_stream(slot);
  return outputs;
}

TEST(SlotRuntimeOnAGpu, GivesAStreamTheSameBitsAloneAndInBatchesOfAnyPaddedWidth) {
  const auto speech = some_speech(4);
  SlotRuntime runtime = make_runtime(cuda_ops());
  std::vector<std::vector<std::vector<float>>> alone;
  for (int32_t slot = 0; slot < streams; ++slot) alone.push_back(run(runtime, speech, {slot}));
  for (const std::vector<int32_t>& slots :
       {std::vector<int32_t>{3, 1}, std::vector<int32_t>{0, 2, 4}, std::vector<int32_t>{4, 0, 3, 1, 2}}) {
    const auto together = run(runtime, speech, slots);
    for (size_t w = 0; w < together.size(); ++w) {
      for (size_t i = 0; i < slots.size(); ++i) {
        const auto row = std::span(together[w]).subspan(i * DeviceEncoder::dim, DeviceEncoder::dim);
        EXPECT_TRUE(same_bits(row, alone[static_cast<size_t>(slots[i])][w]))
            << "window " << w << " of " << slots[i] << " among " << slots.size();
      }
    }
  }
}

TEST(SlotRuntimeOnAGpu, ComputesWhatTheCpuDoes) {
  const auto speech = some_speech(5);
  SlotRuntime runtime = make_runtime(cuda_ops());
  SlotRuntime cpu = make_runtime(make_cpu_ops());
  const std::vector<int32_t> slots{2, 0, 4};
  const auto ours = run(runtime, speech, slots);
  const auto expected = run(cpu, speech, slots);
  for (size_t w = 0; w < ours.size(); ++w) {
    EXPECT_TRUE(close_to(ours[w], std::vector<double>(expected[w].begin(), expected[w].end()), 1e-5))
        << "window " << w;
  }
}

TEST(SlotRuntimeOnAGpu, AllocatesNothingAfterConstructionAndNeverWaits) {
  const auto speech = some_speech(3);
  SlotRuntime runtime = make_runtime(cuda_ops());
  const Tensor whole = runtime.ops().upload(speech[0][0]);
  runtime.allocate_stream(0);
  runtime.allocate_stream(1);
  const std::vector<SlotLane> lanes{{.slot = 0, .features = whole},
                                    {.slot = 1, .features = whole.view().slice(0, 3)}};
  const DeviceUse before = runtime.ops().device_use();
  for (int tick = 0; tick < 3; ++tick) (void)runtime.forward(lanes);
  EXPECT_EQ(runtime.ops().device_use().allocations, before.allocations);
  EXPECT_EQ(runtime.ops().device_use().waits, before.waits);
}

}  // namespace
}  // namespace tutti
