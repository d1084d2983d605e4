#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/device_metrics.hpp"
#include "actors/interfaces.hpp"
#include "actors/latency_guard.hpp"
#include "actors/metrics.hpp"
#include "engine/engine.hpp"

namespace tutti {

struct OwnerSetup {
  std::string device;                                    ///< for logs
  std::string model_identity{};                          ///< RecognizerInfo's
  std::function<std::unique_ptr<Engine>()> make_engine;  ///< called in the owner's thread; may throw
  std::optional<int> core;                               ///< to pin the thread to
  std::chrono::milliseconds snapshots{0};                ///< of audio between two of a stream; 0 = none
  std::chrono::milliseconds latency_target{0};           ///< see LatencyGuard
  bool traced = false;                                   ///< streams are told when their ticks did what
  std::shared_ptr<Metrics> metrics;
  bool counts_device = false;  ///< whether metrics show what it is asked for
  std::function<void(const GpuOwner&, const RecognizerInfo&)> on_started = {};  ///< from its thread
};

struct GpuOwnerState {
  GpuOwnerState() = default;  // an aggregate would be initialised from the actor's own address
  GpuOwnerState(const GpuOwnerState&) = delete;
  GpuOwnerState& operator=(const GpuOwnerState&) = delete;
  /// Gives its memory back to the system.
  ~GpuOwnerState();

  void count_blocks(int blocks, int used);

  /// Who listens to a slot, by which name of the stream, and since which generation.
  struct Seat {
    StreamActor stream;
    int tag = 0;
    uint32_t generation = 0;
    int64_t commands = 0;        // asked for
    int64_t unsaved = 0;         // samples consumed since the last snapshot
    bool must_be_saved = false;  // a command was carried out, or will be
    bool waits = false;          // in `due`
  };

  std::unique_ptr<Engine> engine;
  std::string model_identity;
  std::shared_ptr<Metrics> metrics;
  int64_t snapshot_samples = 0;  // between two snapshots of a stream; 0 = none
  std::optional<DeviceMetrics> device;
  std::optional<LatencyGuard> guard;
  int counted_blocks = 0;
  int counted_used_blocks = 0;
  std::vector<Seat> seats;  // by slot
  bool tick_pending = false;
  bool wake_pending = false;                // a rest of uploads ends with it
  int64_t ahead_of_tick = 0;                // messages that were in the mailbox before the pending tick
  EngineStats counted;                      // what the metrics know of
  std::vector<std::vector<Update>> outbox;  // by slot, while a tick's updates are sorted
  std::vector<int32_t> touched;             // slots with something in outbox or arrived
  std::deque<StreamKey> due;                // streams whose snapshot is to be begun, in turn
  std::vector<std::shared_ptr<const StreamSnapshot>> arrived;  // by slot, while they are sorted
  bool traced = false;
  std::shared_ptr<const TickTimeline> timeline;  // of this tick, when it is traced
  std::vector<Clock::time_point> chunk_ready;    // by slot, of this tick's chunks; else {}
};

/// Owns one device: everything that is ready is gathered and run as one tick. A tick is a message to itself,
/// sent when work arrives and none is under way; the mailbox is first in first out, so whatever was queued
/// before it is part of the batch. Spawn it detached: a tick occupies its thread.
///
/// A stream gets a snapshot of itself after each command and whenever so much of its audio was consumed since
/// the last: with its updates, or, where it takes the device a while to hand it over, with later ones or by
/// itself. A device hands over only so much at a time; who is due waits in turn.
///
/// `start` builds the engine, and answers with what went wrong if it cannot; nothing else is answered before.
GpuOwner::behavior_type gpu_owner(GpuOwner::stateful_pointer<GpuOwnerState> self, const OwnerSetup& setup);

}  // namespace tutti
