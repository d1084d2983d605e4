#include "actors/gpu_owner.hpp"

#include <malloc.h>

#include <exception>
#include <utility>

#include "actors/log_exceptions.hpp"
#include "actors/stream_context.hpp"
#include "actors/thread_roles.hpp"

namespace tutti {
namespace {

using Self = GpuOwner::stateful_pointer<GpuOwnerState>;

/// How soon to ask again for snapshots that have not arrived, where no tick comes before.
constexpr std::chrono::milliseconds snapshot_pause{5};

RecognizerInfo describe(const GpuOwnerState& state) {
  const Engine& engine = *state.engine;
  return {.model = engine.model().name(),
          .model_identity = state.model_identity,
          .sample_rate = engine.sample_rate(),
          .chunk_ms = engine.chunk_ms(),
          .samples_per_frame = engine.samples_per_frame(),
          .window_samples = engine.window_samples(),
          .overlap_samples = engine.overlap_samples(),
          .max_streams = engine.free_streams() + engine.open_streams(),
          .snapshot_samples = static_cast<int>(state.snapshot_samples),
          .max_buffered_ms = engine.config().max_buffered_ms};
}

Started start(Self self, const OwnerSetup& setup) {
  try {
    prepare_owner_thread(setup.core);
    self->state.engine = setup.make_engine();
  } catch (const std::exception& e) {
    self->quit();
    return fail("setup", e.what());
  }
  self->state.metrics = setup.metrics;
  self->state.model_identity = setup.model_identity;
  if (setup.counts_device) self->state.device.emplace(setup.metrics->of_device(setup.device));
  self->state.counted = self->state.engine->stats();
  self->state.guard.emplace(setup.latency_target);
  self->state.snapshot_samples = setup.snapshots.count() * self->state.engine->sample_rate() / 1000;
  self->state.count_blocks(self->state.engine->kv_blocks(), 0);
  const RecognizerInfo info = describe(self->state);
  self->state.seats.resize(static_cast<size_t>(info.max_streams));
  self->state.outbox.resize(static_cast<size_t>(info.max_streams));
  self->state.arrived.resize(static_cast<size_t>(info.max_streams));
  self->state.traced = setup.traced;
  self->state.chunk_ready.resize(static_cast<size_t>(info.max_streams));
  if (setup.on_started) setup.on_started(GpuOwner{self}, info);
  return info;
}

void arm(Self self) {
  GpuOwnerState& state = self->state;
  if (state.tick_pending) {
    ++state.ahead_of_tick;
  } else if (!state.engine->has_work()) {
    return;
  } else if (const Clock::duration rest = state.engine->rest(); rest > rest.zero()) {
    if (!std::exchange(state.wake_pending, true)) self->delayed_send(self, rest, wake_atom_v);
  } else {
    state.tick_pending = true;
    state.ahead_of_tick = 0;
    self->send(self, tick_atom_v);
  }
}

/// With no tick to come, snapshots are looked after by themselves.
void watch_snapshots(Self self) {
  GpuOwnerState& state = self->state;
  if (state.due.empty() && state.engine->stats().snapshots_under_way == 0) return;
  if (state.tick_pending || std::exchange(state.wake_pending, true)) return;
  self->delayed_send(self, snapshot_pause, wake_atom_v);
}

Admission admit(Self self, const StreamOptions& options, const StreamActor& stream) {
  const Result<StreamKey> key = self->state.engine->admit(options);
  if (!key) return tl::unexpected(key.error());
  self->state.seats[static_cast<size_t>(key->slot)] = {
      .stream = stream, .tag = options.tag, .generation = key->generation};
  return std::make_shared<StreamContext>(GpuOwner{self}, *key, options, describe(self->state));
}

/// The stream that holds `key`, or null.
GpuOwnerState::Seat* find_seat(GpuOwnerState& state, StreamKey key) {
  if (key.slot < 0 || static_cast<size_t>(key.slot) >= state.seats.size()) return nullptr;
  GpuOwnerState::Seat& seat = state.seats[static_cast<size_t>(key.slot)];
  return seat.stream && seat.generation == key.generation ? &seat : nullptr;
}

/// No snapshot of the stream is begun any more.
void forget_snapshot(GpuOwnerState& state, GpuOwnerState::Seat& seat, StreamKey key) {
  if (std::exchange(seat.waits, false)) std::erase(state.due, key);
}

/// Of a stream that ended by itself nothing is left to release, which is the usual end of a lease.
void release(Self self, StreamKey key) {
  GpuOwnerState::Seat* const seat = find_seat(self->state, key);
  if (seat == nullptr) return;
  self->state.engine->release(key);
  forget_snapshot(self->state, *seat, key);
  seat->stream = nullptr;
}

/// A call the engine refuses breaks an agreement of ours with the stream, which alone pays for it, and logs
/// it.
void end_if_refused(Self self, StreamKey key, const Result<void>& result) {
  if (result) return arm(self);
  if (const GpuOwnerState::Seat* const seat = find_seat(self->state, key)) {
    Update update;
    update.kind = Update::Kind::error;
    update.key = key;
    update.text = result.error().message;
    caf::anon_send(seat->stream, update_atom_v,
                   StreamUpdates{make_buffer(std::vector{std::move(update)}), seat->tag});
  }
  release(self, key);
}

/// A command; the engine has it.
void note_command(GpuOwnerState& state, StreamKey key) {
  GpuOwnerState::Seat* const seat = find_seat(state, key);
  if (seat == nullptr) return;
  ++seat->commands;
  seat->must_be_saved = true;
}

void restore(Self self, const StreamStart& start) {
  const Result<void> restored = self->state.engine->restore(start.key, *start.snapshot);
  if (GpuOwnerState::Seat* const seat = find_seat(self->state, start.key); seat != nullptr && restored) {
    seat->commands = start.snapshot->commands;
  }
  end_if_refused(self, start.key, restored);
}

void note_consumed(GpuOwnerState& state, GpuOwnerState::Seat& seat, StreamKey key, int64_t samples) {
  seat.unsaved += samples;
  if (state.snapshot_samples == 0 || seat.waits) return;
  seat.waits = seat.must_be_saved || seat.unsaved >= state.snapshot_samples;
  if (seat.waits) state.due.push_back(key);
}

/// Of those that are due, as far as there is room.
void begin_snapshots(GpuOwnerState& state) {
  while (!state.due.empty()) {
    const StreamKey key = state.due.front();
    const std::optional<int64_t> commands = state.engine->begin_snapshot(key);
    if (!commands) {
      if (state.device) state.device->snapshot_postponed();
      return;
    }
    GpuOwnerState::Seat& seat = state.seats[static_cast<size_t>(key.slot)];
    seat.unsaved = 0;
    seat.must_be_saved = *commands < seat.commands;
    seat.waits = false;
    state.due.pop_front();
  }
}

void touch(GpuOwnerState& state, int32_t slot) {
  const auto i = static_cast<size_t>(slot);
  if (state.outbox[i].empty() && !state.arrived[i]) state.touched.push_back(slot);
}

void collect_snapshots(GpuOwnerState& state) {
  while (auto taken = state.engine->next_snapshot()) {
    if (find_seat(state, taken->key) == nullptr) continue;  // the stream has ended meanwhile
    state.metrics->snapshot_taken();
    touch(state, taken->key.slot);
    state.arrived[static_cast<size_t>(taken->key.slot)] =
        std::make_shared<const StreamSnapshot>(std::move(taken->snapshot));
  }
}

/// Before the updates of the tick are sent.
void note_timeline(GpuOwnerState& state, Clock::time_point begin, Clock::time_point recognized) {
  if (!state.traced) return;
  const EngineStats& before = state.counted;
  const EngineStats& after = state.engine->stats();
  const auto length = [](double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  };
  state.timeline = std::make_shared<const TickTimeline>(
      TickTimeline{.begin = begin,
                   .features = length(after.feature_seconds - before.feature_seconds),
                   .forward = length(after.forward_seconds - before.forward_seconds),
                   .decode = length(after.decode_seconds - before.decode_seconds),
                   .rescore = length(after.rescore_seconds - before.rescore_seconds),
                   .recognized = recognized,
                   .lanes = static_cast<int>(after.lanes - before.lanes)});
  for (const ChunkTiming& chunk : state.engine->chunk_timings()) {
    state.chunk_ready[static_cast<size_t>(chunk.key.slot)] = chunk.ready;
  }
}

/// What the stream of a slot is told of it.
TracedTick traced_tick(GpuOwnerState& state, int32_t slot) {
  if (!state.timeline) return {};
  return {state.timeline, std::exchange(state.chunk_ready[static_cast<size_t>(slot)], {}), Clock::now()};
}

Update compact(const Update& update) {
  Update copy = update;
  copy.words.resize(update.word_count);
  return copy;
}

bool is_last(const Update& update) {
  return update.kind == Update::Kind::done || update.kind == Update::Kind::error;
}

void sort_updates(GpuOwnerState& state, std::span<const Update> updates) {
  for (const Update& update : updates) {
    touch(state, update.key.slot);
    state.outbox[static_cast<size_t>(update.key.slot)].push_back(compact(update));
  }
  for (const int32_t slot : state.touched) {
    const std::vector<Update>& out = state.outbox[static_cast<size_t>(slot)];
    const StreamKey key = out.back().key;
    GpuOwnerState::Seat* const seat = find_seat(state, key);
    if (seat == nullptr) continue;
    if (is_last(out.back())) {
      forget_snapshot(state, *seat, key);
      continue;
    }
    int64_t consumed = 0;
    for (const Update& update : out) consumed += update.consumed_samples;
    note_consumed(state, *seat, key, consumed);
  }
}

void send_sorted(GpuOwnerState& state) {
  for (const int32_t slot : state.touched) {
    std::vector<Update> out = std::exchange(state.outbox[static_cast<size_t>(slot)], {});
    auto snapshot = std::exchange(state.arrived[static_cast<size_t>(slot)], nullptr);
    GpuOwnerState::Seat& seat = state.seats[static_cast<size_t>(slot)];
    const StreamKey key = out.empty() ? StreamKey{slot, seat.generation} : out.back().key;
    if (find_seat(state, key) == nullptr) continue;
    const bool ended = !out.empty() && is_last(out.back());
    if (ended) snapshot = nullptr;
    const TracedTick traced = out.empty() ? TracedTick{} : traced_tick(state, slot);
    caf::anon_send(seat.stream, update_atom_v,
                   StreamUpdates{make_buffer(std::move(out)), seat.tag, std::move(snapshot), traced});
    if (ended) seat.stream = nullptr;
  }
  state.touched.clear();
}

/// What a tick has to say, and snapshots that have come.
void send_updates(GpuOwnerState& state, std::span<const Update> updates) {
  sort_updates(state, updates);
  begin_snapshots(state);
  collect_snapshots(state);
  send_sorted(state);
}

void tick(Self self) {
  GpuOwnerState& state = self->state;
  Metrics& metrics = *state.metrics;
  state.tick_pending = false;
  metrics.owner_mailbox(state.ahead_of_tick);
  const Clock::time_point begin = Clock::now();
  const std::span<const Update> updates = state.engine->tick();
  const Clock::time_point recognized = Clock::now();
  note_timeline(state, begin, recognized);
  send_updates(state, updates);
  const Clock::time_point end = Clock::now();
  for (const ChunkTiming& chunk : state.engine->chunk_timings()) {
    metrics.chunk(chunk.stream_class, begin - chunk.ready, end - chunk.ready);
    if (chunk.stream_class == StreamClass::live) state.guard->record(end, end - chunk.ready);
  }
  const EngineStats& stats = state.engine->stats();
  metrics.tick({.whole = end - begin, .emit = end - recognized}, state.counted, stats);
  if (state.device) state.device->tick(state.counted, stats);
  state.counted = stats;
  state.count_blocks(state.engine->kv_blocks(), state.engine->kv_blocks_used());
  arm(self);
  watch_snapshots(self);
}

void wake(Self self) {
  self->state.wake_pending = false;
  if (!self->state.tick_pending) send_updates(self->state, {});
  if (self->state.device) self->state.device->snapshots(self->state.engine->stats());
  arm(self);
  watch_snapshots(self);
}

}  // namespace

GpuOwnerState::~GpuOwnerState() {
  count_blocks(0, 0);
  engine.reset();
  ::malloc_trim(0);  // others of this process go on, and the allocator would keep it for them
}

void GpuOwnerState::count_blocks(int blocks, int used) {
  if (!metrics) return;
  metrics->kv_blocks(blocks - std::exchange(counted_blocks, blocks),
                     used - std::exchange(counted_used_blocks, used));
}

GpuOwner::behavior_type gpu_owner(Self self, const OwnerSetup& setup) {
  log_exceptions(self, "the owner of " + setup.device);

  return {
      [self, setup](start_atom) { return start(self, setup); },
      [self](admit_atom, const StreamOptions& options, const StreamActor& stream) {
        return admit(self, options, stream);
      },
      [self](feed_atom, StreamKey key, const AudioSamples& audio) {
        end_if_refused(self, key, self->state.engine->feed(key, audio.samples->items, audio.arrival));
      },
      [self](finalize_atom, const SegmentCommand& command) {
        note_command(self->state, command.key);
        end_if_refused(self, command.key, self->state.engine->finalize(command.key, command.arrival));
      },
      [self](finish_atom, const SegmentCommand& command) {
        note_command(self->state, command.key);
        end_if_refused(self, command.key, self->state.engine->finish(command.key, command.arrival));
      },
      [self](reset_atom, StreamKey key) {
        note_command(self->state, key);
        end_if_refused(self, key, self->state.engine->reset(key));
      },
      [self](release_atom, StreamKey key) { release(self, key); },
      [self](restore_atom, const StreamStart& start) { restore(self, start); },
      [self](ping_atom) {
        return OwnerHealth{.overloaded = self->state.guard->is_closed(Clock::now()),
                           .free = self->state.engine->free_streams()};
      },
      [self](tick_atom) { tick(self); },
      [self](wake_atom) { wake(self); },
  };
}

}  // namespace tutti
