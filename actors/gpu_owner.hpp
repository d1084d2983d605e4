#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/interfaces.hpp"
#include "actors/metrics.hpp"
#include "engine/engine.hpp"

namespace tutti {

struct OwnerSetup {
  std::string device;                                    ///< for logs
  std::function<std::unique_ptr<Engine>()> make_engine;  ///< called in the owner's thread; may throw
  std::optional<int> core;                               ///< to pin the thread to
  std::shared_ptr<Metrics> metrics;
};

struct GpuOwnerState {
  GpuOwnerState() = default;  // an aggregate would be initialised from the actor's own address

  /// Who listens to a slot, by which name of the stream, and since which generation.
  struct Seat {
    StreamActor stream;
    int tag = 0;
    uint32_t generation = 0;
  };

  std::unique_ptr<Engine> engine;
  std::vector<Seat> seats;  // by slot
  bool tick_pending = false;
  bool wake_pending = false;                // a rest of uploads ends with it
  int64_t ahead_of_tick = 0;                // messages that were in the mailbox before the pending tick
  EngineStats counted;                      // what the metrics know of
  std::vector<std::vector<Update>> outbox;  // by slot, while a tick's updates are sorted
  std::vector<int32_t> touched;             // slots with something in outbox
};

/// Owns one device: everything that is ready is gathered and run as one tick. A tick is a message to itself,
/// sent when work arrives and none is under way; the mailbox is first in first out, so whatever was queued
/// before it is part of the batch. Spawn it detached: a tick occupies its thread.
///
/// `start` builds the engine, and answers with what went wrong if it cannot; nothing else is answered before.
GpuOwner::behavior_type gpu_owner(GpuOwner::stateful_pointer<GpuOwnerState> self, const OwnerSetup& setup);

}  // namespace tutti
