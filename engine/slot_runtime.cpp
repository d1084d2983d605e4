#include "engine/slot_runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

namespace tutti {

namespace {

const SlotEncoder& conditioned(const SlotEncoder& encoder) {
  require_conditioning(encoder.slot_state_specs(), encoder.stream_conditioning(), "slot runtime",
                       SlotRuntime::carries_encoder_conditioning);
  return encoder;
}

std::vector<StreamStateSpec> declared_states(const SlotEncoder& encoder) {
  const std::span<const StreamStateSpec> specs = encoder.slot_state_specs();
  return {specs.begin(), specs.end()};
}

Tensor blank_window(const SlotEncoder& encoder) {
  Tensor window = host_tensor(DType::f32, {encoder.geometry().window, encoder.num_mel_bins()});
  std::fill_n(window.view().f32(), window.shape().elements(), encoder.streaming_pad_value());
  return window;
}

int positive_lanes(int max_batch_size) {
  if (max_batch_size >= 1) return max_batch_size;
  throw std::invalid_argument(
      fmt::format("SlotRuntime: max_batch_size = {}, expected at least 1", max_batch_size));
}

}  // namespace

SlotRuntime::SlotRuntime(std::shared_ptr<const SlotEncoder> encoder, std::unique_ptr<Ops> ops,
                         int max_streams, int max_batch_size)
    : encoder_(std::move(encoder)),
      ops_(std::move(ops)),
      geometry_(conditioned(*encoder_).geometry()),
      max_batch_size_(positive_lanes(max_batch_size)),
      states_(declared_states(*encoder_), max_streams, 1, *ops_),
      workspace_(encoder_->make_workspace(*ops_, max_batch_size)),
      windows_(ops_->allocate(DType::f32, {max_batch_size, geometry_.window, encoder_->num_mel_bins()})),
      blank_window_(ops_->upload(blank_window(*encoder_))) {
  for (const StreamStateSpec& spec : states_.specs()) {
    gathered_.push_back(ops_->allocate(spec.dtype, spec.shape.with_axis(spec.slot_axis, max_batch_size)));
  }
  lane_states_.reserve(gathered_.size());
  features_.reserve(static_cast<size_t>(max_batch_size));
  slots_.reserve(static_cast<size_t>(max_batch_size));
}

void SlotRuntime::allocate_stream(int slot, std::span<const StreamConditioning> request) {
  states_.allocate_stream(slot);
  try {
    condition(slot, encoder_->stream_conditioning());
    condition(slot, request);
  } catch (...) {
    states_.free_stream(slot);
    throw;
  }
}

TensorView SlotRuntime::forward(std::span<const SlotLane> lanes) {
  if (lanes.empty() || lanes.size() > static_cast<size_t>(max_batch_size_)) {
    throw std::invalid_argument(
        fmt::format("SlotRuntime::forward: {} lanes, expected 1 to {}", lanes.size(), max_batch_size_));
  }
  const auto width = static_cast<size_t>(padded_width(static_cast<int>(lanes.size())));
  features_.assign(width, blank_window_.view().f32());
  slots_.assign(width, states_.scratch_slot());
  for (size_t i = 0; i < lanes.size(); ++i) {
    features_[i] = whole_window(lanes[i], i).f32();
    slots_[i] = lanes[i].slot;
  }

  const SlotStateLanes states = states_.lanes(slots_);
  lane_states_.clear();
  for (size_t i = 0; i < gathered_.size(); ++i) {
    const TensorView all = gathered_[i];
    lane_states_.push_back({all.data, all.dtype, states[i].shape()});
    states[i].gather(lane_states_[i]);
  }
  const TensorView out = encoder_->forward_chunk(*ops_, *workspace_, {features_, lane_states_});
  for (size_t i = 0; i < gathered_.size(); ++i) {
    if (!states_.specs()[i].persistent) states[i].scatter(lane_states_[i]);
  }
  return out.slice(0, static_cast<int64_t>(lanes.size()));
}

int SlotRuntime::padded_width(int lanes) const {
  return std::min(static_cast<int>(std::bit_ceil(static_cast<unsigned>(lanes))), max_batch_size_);
}

TensorView SlotRuntime::whole_window(const SlotLane& lane, size_t index) {
  const int64_t frames = lane.features.rows();
  if (frames == geometry_.window) return lane.features;
  if (frames < geometry_.min_frames || frames > geometry_.window) {
    throw std::invalid_argument(
        fmt::format("SlotRuntime::forward: a window of {} frames in slot {}, expected {} to {}", frames,
                    lane.slot, geometry_.min_frames, geometry_.window));
  }
  const TensorView window = windows_.view()[static_cast<int64_t>(index)];
  const int64_t rest = geometry_.window - frames;
  ops_->copy(lane.features, window.slice(0, frames));
  ops_->copy(blank_window_.view().slice(frames, rest), window.slice(frames, rest));
  return window;
}

void SlotRuntime::condition(int slot, std::span<const StreamConditioning> conditioning) {
  for (const StreamConditioning& given : conditioning) states_.fill_slot(given.state, slot, given.value);
}

}  // namespace tutti
