#include "cluster/remote_owner.hpp"

#include <utility>

#include "actors/log_exceptions.hpp"
#include "actors/server_status.hpp"
#include "actors/stream_context.hpp"
#include "cluster/frames.hpp"

namespace tutti {
namespace {

using Self = RemoteOwner::stateful_pointer<RemoteOwnerState>;
using Seat = RemoteOwnerState::Seat;

constexpr int slot_bits = 31;

/// Stale keys name no seat: numbers are not used again.
uint64_t stream_number(const RemoteOwnerSetup& setup, StreamKey key) {
  return first_stream_number(setup.owner) | uint64_t{key.generation} << slot_bits |
         static_cast<uint32_t>(key.slot);
}

StreamKey next_key(RemoteOwnerState& state) {
  const uint64_t count = ++state.admitted;
  return {.slot = static_cast<int32_t>(count & ((uint64_t{1} << slot_bits) - 1)),
          .generation = static_cast<uint32_t>(count >> slot_bits)};
}

/// The key of a stream of this owner.
StreamKey key_of(uint64_t number) {
  const uint64_t count = number & ((uint64_t{1} << stream_number_bits) - 1);
  return {.slot = static_cast<int32_t>(count & ((uint64_t{1} << slot_bits) - 1)),
          .generation = static_cast<uint32_t>(count >> slot_bits)};
}

caf::result<Admission> admit(Self self, const RemoteOwnerSetup& setup, const StreamOptions& options,
                             const StreamActor& stream) {
  RemoteOwnerState& state = self->state;
  if (std::ssize(state.seats) >= setup.info.max_streams) {
    return Admission(tl::unexpected(refusal_of(Room::full)));
  }
  const uint64_t number = stream_number(setup, next_key(state));
  auto promise = self->make_response_promise<Admission>();
  state.seats.emplace(number, Seat{.stream = stream, .options = options, .promise = promise});
  send_frame(setup.engine, wire::Admit{.stream = number, .owner = setup.owner, .options = options});
  return promise;
}

void on_admitted(Self self, const RemoteOwnerSetup& setup, const wire::Admitted& answer) {
  const auto at = self->state.seats.find(answer.stream);
  if (at == self->state.seats.end() || !at->second.promise.pending()) return;
  Seat& seat = at->second;
  if (answer.refusal) {
    seat.promise.deliver(Admission(tl::unexpected(*answer.refusal)));
    self->state.seats.erase(at);
    return;
  }
  seat.promise.deliver(Admission(std::make_shared<StreamContext>(
      GpuOwner{RemoteOwner{self}}, key_of(answer.stream), seat.options, setup.info)));
}

void on_updates(Self self, wire::Updates& message) {
  const auto at = self->state.seats.find(message.stream);
  if (at == self->state.seats.end() || message.updates.empty()) return;
  for (Update& update : message.updates) update.key = key_of(message.stream);
  const Update::Kind last = message.updates.back().kind;
  caf::anon_send(at->second.stream, update_atom_v,
                 StreamUpdates{make_buffer(std::move(message.updates)), at->second.options.tag,
                               std::move(message.snapshot)});
  if (last == Update::Kind::done || last == Update::Kind::error) self->state.seats.erase(at);
}

}  // namespace

RemoteOwner::behavior_type remote_owner(Self self, const RemoteOwnerSetup& setup) {
  log_exceptions(self, "a remote owner");
  self->monitor(setup.link);
  self->set_down_handler(
      [self](const caf::down_msg&) { self->quit(caf::exit_reason::remote_link_unreachable); });
  // Of a stream that has ended nothing is left that the engine would know.
  const auto send = [self, setup](StreamKey key, auto frame) {
    frame.stream = stream_number(setup, key);
    if (self->state.seats.contains(frame.stream)) send_frame(setup.engine, std::move(frame));
  };

  return {
      [setup](start_atom) -> Started { return setup.info; },
      [self, setup](admit_atom, const StreamOptions& options, const StreamActor& stream) {
        return admit(self, setup, options, stream);
      },
      [send](feed_atom, StreamKey key, const AudioSamples& audio) {
        send(key, wire::Feed{.stream = 0, .samples = audio.samples->items, .arrival = audio.arrival});
      },
      [send](finalize_atom, const SegmentCommand& command) {
        send(command.key, wire::Finalize{.stream = 0, .arrival = command.arrival});
      },
      [send](finish_atom, const SegmentCommand& command) {
        send(command.key, wire::Finish{.stream = 0, .arrival = command.arrival});
      },
      [send](reset_atom, StreamKey key) { send(key, wire::Reset{}); },
      [self, setup, send](release_atom, StreamKey key) {
        send(key, wire::Release{});
        self->state.seats.erase(stream_number(setup, key));
      },
      [send](restore_atom, const StreamStart& start) {
        send(start.key, wire::Restore{.stream = 0, .snapshot = start.snapshot});
      },
      [self, setup](ping_atom) -> caf::result<OwnerHealth> {
        self->state.ping = self->make_response_promise<OwnerHealth>();
        caf::anon_send(setup.link, ping_atom_v);
        return *self->state.ping;
      },
      [](tick_atom) {},
      [](wake_atom) {},
      [self, setup](const wire::Admitted& answer) { on_admitted(self, setup, answer); },
      [self](wire::Updates& updates) { on_updates(self, updates); },
      [self](const wire::OwnerState& owner) {
        if (!self->state.ping) return;
        self->state.ping->deliver(OwnerHealth{.overloaded = owner.overloaded, .free = owner.free});
        self->state.ping.reset();
      },
  };
}

}  // namespace tutti
