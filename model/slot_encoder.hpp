#pragma once

#include <memory>
#include <span>

#include "cache/slot_state.hpp"
#include "gpu/ops.hpp"
#include "model/stream_conditioning.hpp"
#include "model/streaming_geometry.hpp"

namespace tutti {

/// One window a lane, each of geometry().window rows.
struct SlotBatch {
  std::span<const float* const> features;  ///< window x mel each, on the device
  std::span<const TensorView> states;      ///< by slot_state_specs(), the lanes on the slot axis
  [[nodiscard]] int lanes() const { return static_cast<int>(features.size()); }
};

/// A streaming encoder whose whole cache is of fixed extent (Zipformer's windows, recurrent states): it
/// declares what it keeps of a stream, and a runtime keeps it. Immutable, and shared by every owner of one
/// kind of device.
class SlotEncoder {
 public:
  /// Activation memory of one runtime.
  class Workspace {
   public:
    virtual ~Workspace() = default;
  };

  virtual ~SlotEncoder() = default;

  /// Zero is every state's initial value, but for the persistent ones, which `stream_conditioning` sets.
  [[nodiscard]] virtual std::span<const StreamStateSpec> slot_state_specs() const = 0;
  /// The value of each persistent state of a stream that asks for no other.
  [[nodiscard]] virtual std::span<const StreamConditioning> stream_conditioning() const = 0;

  [[nodiscard]] virtual StreamingGeometry geometry() const = 0;
  [[nodiscard]] virtual int num_mel_bins() const = 0;
  /// The feature value that fills a stream's last window.
  [[nodiscard]] virtual float streaming_pad_value() const = 0;

  /// For up to `lanes` windows; reserves the scratch memory of `ops` for them.
  [[nodiscard]] virtual std::unique_ptr<Workspace> make_workspace(Ops& ops, int lanes) const = 0;
  /// Returns (lanes, stride / subsampling, D), valid until the workspace's next forward, and overwrites the
  /// states that are not persistent with those after the window. A lane is computed from its own window and
  /// states alone, in an order that does not depend on the other lanes.
  [[nodiscard]] virtual TensorView forward_chunk(Ops& ops, Workspace& workspace,
                                                 const SlotBatch& batch) const = 0;
};

}  // namespace tutti
