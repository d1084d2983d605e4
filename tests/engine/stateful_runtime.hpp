#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/slot_runtime.hpp"

namespace tutti {

/// The plain way to run a SlotEncoder, to compare with: every stream has a list of states of its own, which
/// are put together for a batch and taken apart after it. Nothing is padded; windows are whole.
class StatefulRuntime {
 public:
  static constexpr bool carries_encoder_conditioning = false;

  /// Throws SetupError for an encoder whose streams are conditioned.
  StatefulRuntime(std::shared_ptr<const SlotEncoder> encoder, std::unique_ptr<Ops> ops, int max_batch_size);

  /// As SlotRuntime::forward, for lanes of distinct slots; a slot that is new starts a stream.
  [[nodiscard]] TensorView forward(std::span<const SlotLane> lanes);

 private:
  using States = std::vector<Tensor>;
  States& states_of(int32_t slot);

  std::shared_ptr<const SlotEncoder> encoder_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<SlotEncoder::Workspace> workspace_;
  std::map<int32_t, States> streams_;
};

}  // namespace tutti
