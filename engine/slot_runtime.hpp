#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/slot_state.hpp"
#include "model/slot_encoder.hpp"

namespace tutti {

/// One stream's share of a batched forward.
struct SlotLane {
  int32_t slot = 0;
  TensorView features{};  ///< frames x mel, from min_frames to window frames, on the device
};

/// An encoder whose whole cache is of fixed extent, with the states of one device's streams: gather, forward,
/// scatter, for a batch of lanes at any offsets.
///
/// A batch is padded to the next power of two, so that what a device prepares for each width (a graph, a
/// matrix product's primitive) is prepared for few. The padding lanes are windows of the pad value on a
/// scratch slot: they change no stream's state, and no lane's result. Windows are always whole; a shorter
/// one, a stream's last, is filled up with the encoder's pad value. Nothing allocates after construction but
/// what the encoder does.
class SlotRuntime {
 public:
  /// The conditioning of an encoder is written at admission.
  static constexpr bool carries_encoder_conditioning = true;

  /// Throws SetupError for an encoder whose conditioning does not fit its states, std::invalid_argument for
  /// fewer than one stream or lane.
  SlotRuntime(std::shared_ptr<const SlotEncoder> encoder, std::unique_ptr<Ops> ops, int max_streams,
              int max_batch_size);

  /// Zeroes the slot's states and writes the encoder's conditioning, then what the request says otherwise.
  /// Throws as SlotStateCache::allocate_stream and fill_slot, and then leaves the slot free.
  void allocate_stream(int slot, std::span<const StreamConditioning> request = {});
  /// The stream's next window is its first; its conditioning stays.
  void reset_stream(int slot) { states_.reset_stream(slot); }
  void free_stream(int slot) { states_.free_stream(slot); }

  /// Returns (lanes, stride / subsampling, D) on the device, valid until the next call. Features stay as they
  /// are until it has been read. Throws std::invalid_argument for
  /// more lanes than max_batch_size or none, two of one stream, or a window that is too short or long;
  /// UnknownStream for a slot that is not allocated.
  [[nodiscard]] TensorView forward(std::span<const SlotLane> lanes);

  /// Lanes that a batch of `lanes` is padded to: the next power of two, at most max_batch_size.
  [[nodiscard]] int padded_width(int lanes) const;
  [[nodiscard]] Ops& ops() { return *ops_; }
  [[nodiscard]] const SlotStateCache& states() const { return states_; }

 private:
  [[nodiscard]] TensorView whole_window(const SlotLane& lane, size_t index);
  void condition(int slot, std::span<const StreamConditioning> conditioning);

  std::shared_ptr<const SlotEncoder> encoder_;
  std::unique_ptr<Ops> ops_;
  StreamingGeometry geometry_;
  int max_batch_size_;
  SlotStateCache states_;
  std::unique_ptr<SlotEncoder::Workspace> workspace_;
  std::vector<Tensor> gathered_;         // of each state, for max_batch_size lanes
  std::vector<TensorView> lane_states_;  // of gathered_, for the lanes of this batch
  Tensor windows_;                       // (max_batch_size, window, mel): those that were filled up
  Tensor blank_window_;                  // (window, mel)
  std::vector<const float*> features_;
  std::vector<int32_t> slots_;
};

}  // namespace tutti
