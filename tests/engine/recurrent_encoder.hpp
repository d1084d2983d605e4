#pragma once

#include <optional>
#include <vector>

#include "model/slot_encoder.hpp"

namespace tutti {

/// A small encoder with every kind of state of fixed extent: the tail of a convolution, a recurrent memory
/// per layer, a rolling window of frames, a count of frames and, optionally, a prompt. Random weights.
class RecurrentEncoder final : public SlotEncoder {
 public:
  static constexpr int mel = 6;
  static constexpr int dim = 8;
  static constexpr int chunk_frames = 4;
  static constexpr int window = 2 * chunk_frames;
  static constexpr int prompts = 3;
  static constexpr float pad_value = -11.5F;

  /// Streams that do not ask for another prompt get `default_prompt`; without one there are no prompts.
  explicit RecurrentEncoder(Ops& ops, std::optional<int> default_prompt = std::nullopt);

  std::span<const StreamStateSpec> slot_state_specs() const override { return specs_; }
  std::span<const StreamConditioning> stream_conditioning() const override { return conditioning_; }
  StreamingGeometry geometry() const override {
    return {.window = window, .stride = window, .min_frames = 2, .subsampling = 2};
  }
  int num_mel_bins() const override { return mel; }
  float streaming_pad_value() const override { return pad_value; }
  std::unique_ptr<Workspace> make_workspace(Ops& ops, int lanes) const override;
  TensorView forward_chunk(Ops& ops, Workspace& workspace, const SlotBatch& batch) const override;

 private:
  struct Activations;
  void embed(Ops& ops, Activations& ws, const SlotBatch& batch) const;
  void run_layer(Ops& ops, Activations& ws, int layer, const TensorView& memory) const;
  void add_history(Activations& ws, const SlotBatch& batch) const;

  std::vector<StreamStateSpec> specs_;
  std::vector<StreamConditioning> conditioning_;
  Tensor mean_;
  Tensor istd_;
  std::shared_ptr<const PackedLinear> embedding_;
  std::vector<std::shared_ptr<const PackedLinear>> layers_;
  Tensor prompt_table_;
};

}  // namespace tutti
