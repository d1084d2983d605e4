#include "recurrent_encoder.hpp"

#include <algorithm>
#include <numeric>

#include "tests/gpu/random_tensor.hpp"

namespace tutti {

namespace {

constexpr int layers = 2;
constexpr int tail_frames = 2;  // feature frames before the window that its first frame sees
constexpr int patch = tail_frames + 2;
constexpr int history = 5;  // frames of the rolling window

enum State : size_t { tail, memory, recent, processed, prompt };

}  // namespace

struct RecurrentEncoder::Activations final : Workspace {
  Tensor features;  // (lanes * window, mel)
  Tensor extended;  // (lanes * (tail + window), mel)
  Tensor patches;   // (lanes * chunk, patch * mel)
  Tensor x;         // (lanes, chunk, D)
  Tensor joined;    // (lanes, 2D): a frame and the memory
  std::vector<int32_t> row_begin;
  std::vector<int32_t> lane_numbers;
};

RecurrentEncoder::RecurrentEncoder(Ops& ops, std::optional<int> default_prompt) {
  specs_ = {{.name = "embed.tail", .shape = {tail_frames, mel}},
            {.name = "layers.memory", .shape = {layers, dim}, .slot_axis = 1},
            {.name = "recent", .shape = {history, dim}, .slot_axis = 1},
            {.name = "processed", .shape = {}, .dtype = DType::i32}};
  if (default_prompt) {
    specs_.push_back({.name = "prompt", .shape = {}, .persistent = true, .dtype = DType::i32});
    conditioning_ = {{.state = "prompt", .value = static_cast<double>(*default_prompt)}};
  }
  Random random(21);
  mean_ = random.tensor({mel});
  istd_ = random.tensor({mel});
  embedding_ = ops.pack_linear(random.tensor({dim, patch * mel}, 0.2F), random.tensor({dim}));
  for (int i = 0; i < layers; ++i) {
    layers_.push_back(ops.pack_linear(random.tensor({dim, 2 * dim}, 0.4F), random.tensor({dim})));
  }
  prompt_table_ = random.tensor({prompts, dim});
}

std::unique_ptr<SlotEncoder::Workspace> RecurrentEncoder::make_workspace(Ops& ops, int lanes) const {
  auto ws = std::make_unique<Activations>();
  ws->features = ops.allocate(DType::f32, {lanes * window, mel});
  ws->extended = ops.allocate(DType::f32, {lanes * (tail_frames + window), mel});
  ws->patches = ops.allocate(DType::f32, {lanes * chunk_frames, patch * mel});
  ws->x = ops.allocate(DType::f32, {lanes, chunk_frames, dim});
  ws->joined = ops.allocate(DType::f32, {lanes, 2 * dim});
  ws->row_begin.resize(static_cast<size_t>(lanes) + 1);
  for (size_t i = 0; i < ws->row_begin.size(); ++i) ws->row_begin[i] = static_cast<int32_t>(i) * window;
  ws->lane_numbers.resize(static_cast<size_t>(lanes));
  std::iota(ws->lane_numbers.begin(), ws->lane_numbers.end(), 0);
  ops.reserve(lanes, lanes * (tail_frames + window), 0);
  return ws;
}

TensorView RecurrentEncoder::forward_chunk(Ops& ops, Workspace& workspace, const SlotBatch& batch) const {
  auto& ws = static_cast<Activations&>(workspace);
  embed(ops, ws, batch);
  for (int i = 0; i < layers; ++i) run_layer(ops, ws, i, batch.states[memory][i]);
  add_history(ws, batch);
  return ws.x.view().slice(0, batch.lanes());
}

/// A convolution over patches of 4 feature frames, 2 apart.
void RecurrentEncoder::embed(Ops& ops, Activations& ws, const SlotBatch& batch) const {
  const auto lanes = static_cast<size_t>(batch.lanes());
  const BatchLayout layout{std::span(ws.row_begin).first(lanes + 1)};
  const TensorView features = ws.features.view().slice(0, layout.rows());
  const TensorView extended = ws.extended.view().slice(0, layout.rows() + batch.lanes() * tail_frames);
  ops.cmvn(layout, batch.features, mean_, istd_, features);
  ops.extend_with_context(layout, features, std::span(ws.lane_numbers).first(lanes), batch.states[tail],
                          extended);
  float* to = ws.patches.view().f32();
  for (int lane = 0; lane < batch.lanes(); ++lane) {
    for (int t = 0; t < chunk_frames; ++t) {
      to = std::copy_n(extended[lane * (tail_frames + window) + 2 * t].f32(), patch * mel, to);
    }
  }
  const int64_t rows = int64_t{batch.lanes()} * chunk_frames;
  ops.linear(*embedding_, ws.patches.view().slice(0, rows), {.activation = Activation::swish},
             {ws.x.view().data, DType::f32, {rows, dim}});
}

/// memory (lanes, D) = swish(W [x_t; memory] + b), which is also the layer's output.
void RecurrentEncoder::run_layer(Ops& ops, Activations& ws, int layer, const TensorView& memory_) const {
  const int64_t lanes = memory_.rows();
  const TensorView joined = ws.joined.view().slice(0, lanes);
  for (int t = 0; t < chunk_frames; ++t) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      float* const rest = std::copy_n(ws.x.view()[lane][t].f32(), dim, joined[lane].f32());
      std::copy_n(memory_[lane].f32(), dim, rest);
    }
    ops.linear(*layers_[static_cast<size_t>(layer)], joined, {.activation = Activation::swish}, memory_);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      std::copy_n(memory_[lane].f32(), dim, ws.x.view()[lane][t].f32());
    }
  }
}

/// Adds the mean of the frames before, as many as there were and are kept, and the prompt.
void RecurrentEncoder::add_history(Activations& ws, const SlotBatch& batch) const {
  const TensorView window_ = batch.states[recent];  // (history, lanes, D)
  for (int lane = 0; lane < batch.lanes(); ++lane) {
    int32_t& frames = batch.states[processed].i32()[lane];
    for (int t = 0; t < chunk_frames; ++t, ++frames) {
      float* const x = ws.x.view()[lane][t].f32();
      const int valid = std::min(frames, history);
      for (int c = 0; c < dim; ++c) {
        const float now = x[c];
        float sum = 0;
        for (int i = history - valid; i < history; ++i) sum += window_[i][lane].f32()[c];
        if (valid > 0) x[c] += sum / static_cast<float>(valid);
        for (int i = 0; i + 1 < history; ++i) window_[i][lane].f32()[c] = window_[i + 1][lane].f32()[c];
        window_[history - 1][lane].f32()[c] = now;
        if (specs_.size() > prompt) {
          x[c] += prompt_table_.view()[batch.states[prompt].i32()[lane]].f32()[c];
        }
      }
    }
  }
}

}  // namespace tutti
