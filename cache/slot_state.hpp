#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/errors.hpp"
#include "gpu/ops.hpp"

namespace tutti {

/// Declares a cache of fixed extent: what an encoder keeps of each stream from one chunk to the next.
struct StreamStateSpec {
  std::string name;
  Shape shape;              ///< of one stream's state
  int slot_axis = 0;        ///< where the axis of the slots stands in the tensor, in [0, shape.rank()]
  bool persistent = false;  ///< describes the request, not the audio: a reset keeps it
  DType dtype = DType::f32;
};

/// One state of the lanes of a tick. `shape()` has the lanes on the spec's slot axis, in the tick's order.
class SlotStateView {
 public:
  SlotStateView(const StreamStateSpec& spec, const TensorView& buffer, std::span<const int32_t> slots,
                Ops& ops)
      : spec_(&spec), buffer_(buffer), slots_(slots), ops_(&ops) {}

  [[nodiscard]] const StreamStateSpec& spec() const { return *spec_; }
  [[nodiscard]] Shape shape() const;
  /// Copies the lanes' states to `out`. Throws std::invalid_argument unless it has shape() and the spec's
  /// dtype.
  void gather(const TensorView& out) const;
  /// Overwrites the lanes' states in place. Throws as gather.
  void scatter(const TensorView& values) const;

 private:
  void require_fit(const char* where, const TensorView& lanes) const;

  const StreamStateSpec* spec_;
  TensorView buffer_;
  std::span<const int32_t> slots_;
  Ops* ops_;
};

class SlotStateCache;

/// The lanes of one tick, checked once for all states. Valid as long as its cache and slots are.
class SlotStateLanes {
 public:
  /// By order of declaration.
  [[nodiscard]] SlotStateView operator[](size_t state) const;
  /// By name. Throws std::out_of_range for one that was not declared.
  [[nodiscard]] SlotStateView operator[](std::string_view name) const;

 private:
  friend class SlotStateCache;
  SlotStateLanes(const SlotStateCache& cache, std::span<const int32_t> slots)
      : cache_(&cache), slots_(slots) {}

  const SlotStateCache* cache_;
  std::span<const int32_t> slots_;
};

/// Every declared state of every stream: one tensor a declaration, allocated once at an address that never
/// changes, with the stream's slot as one of its axes. A slot is zeroed when it is given to a stream; zero is
/// a state's initial value, such as the padding that an offline pass applies before the first frame.
///
/// Behind the streams' slots lie `scratch_slots` more, which no stream is ever given. Padding lanes of a tick
/// read and write there. Nothing allocates memory after construction.
class SlotStateCache {
 public:
  /// Throws std::invalid_argument for declarations that clash or cannot be stored.
  SlotStateCache(std::vector<StreamStateSpec> specs, int max_streams, int scratch_slots, Ops& ops);

  /// Zeroes the slot's states. Throws std::invalid_argument when it is taken or not a stream's.
  void allocate_stream(int slot);
  /// Zeroes the states that are not persistent. Throws UnknownStream for a slot that is not allocated, as
  /// every function below that takes one.
  void reset_stream(int slot);
  void free_stream(int slot);
  /// Sets every element of a persistent state. Throws std::out_of_range for an unknown name,
  /// std::invalid_argument for a state that is not persistent or a value that its dtype does not have.
  void fill_slot(std::string_view name, int slot, double value);

  /// The states of the streams in `slots`. Throws std::invalid_argument when a stream comes twice; a scratch
  /// slot may. No lane's update can reach a slot that is not listed.
  [[nodiscard]] SlotStateLanes lanes(std::span<const int32_t> slots) const;

  [[nodiscard]] std::span<const StreamStateSpec> specs() const { return specs_; }
  /// The tensor of one declaration: its shape with max_streams + scratch slots on slot_axis.
  [[nodiscard]] TensorView buffer(size_t state) const { return buffers_[state].view(); }
  [[nodiscard]] int max_streams() const { return static_cast<int>(taken_.size()); }
  /// Throws std::out_of_range for one that was not asked for at construction.
  [[nodiscard]] int scratch_slot(int i = 0) const;

 private:
  friend class SlotStateLanes;
  [[nodiscard]] size_t index_of(std::string_view name) const;
  void require_allocated(const char* where, int slot) const;
  void fill(size_t state, int32_t slot, double value);

  std::vector<StreamStateSpec> specs_;
  std::vector<Tensor> buffers_;  // of specs_
  std::vector<bool> taken_;      // (max_streams)
  int scratch_slots_;
  Ops& ops_;
};

}  // namespace tutti
