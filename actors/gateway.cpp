#include "actors/gateway.hpp"

#include <spdlog/spdlog.h>

#include <utility>

#include "actors/log_exceptions.hpp"

namespace tutti {
namespace {

using Self = GatewayActor::stateful_pointer<GatewayState>;

void quit_if_drained(Self self) {
  if (self->state.draining && self->state.streams.empty()) self->quit();
}

/// False when it was told to before.
bool refuse_newcomers(Self self, ServerStatus& status) {
  status.set_draining();
  return !std::exchange(self->state.draining, true);
}

void drain(Self self, ServerStatus& status) {
  if (!refuse_newcomers(self, status)) return;
  const std::chrono::seconds grace = self->state.grace;
  spdlog::info("draining: {} open streams may go on for {} s", self->state.streams.size(), grace.count());
  self->delayed_send(self, grace, grace_atom_v);
  quit_if_drained(self);
}

void end_audio(Self self) {
  spdlog::info("draining: the grace period is over, {} streams get their last finals",
               self->state.streams.size());
  for (const StreamActor& stream : self->state.streams) caf::anon_send(stream, drain_atom_v);
  self->delayed_send(self, last_finals, stop_atom_v);
}

void stop(Self self, ServerStatus& status) {
  refuse_newcomers(self, status);
  if (!self->state.streams.empty()) {
    spdlog::warn("stopping with {} streams unfinished", self->state.streams.size());
  }
  // Ahead of whatever audio is queued.
  for (const StreamActor& stream : self->state.streams) {
    caf::anon_send<caf::message_priority::high>(stream, stop_atom_v);
  }
  quit_if_drained(self);
}

}  // namespace

GatewayActor::behavior_type gateway_actor(Self self, const GatewaySetup& setup) {
  log_exceptions(self, "the gateway");
  self->state.grace = setup.grace;
  self->set_down_handler([self](const caf::down_msg& down) {
    self->state.streams.erase(caf::actor_cast<StreamActor>(down.source));
    quit_if_drained(self);
  });

  return {
      [self, placement = setup.placement](open_atom, const PlaceRequest& request,
                                          const StreamActor& stream) -> caf::result<Admission> {
        const bool is_open = self->state.streams.contains(stream);
        if (self->state.draining && !is_open) return Admission(tl::unexpected(draining_refusal()));
        if (!is_open) self->monitor(stream);
        self->state.streams.insert(stream);
        return self->delegate(placement, place_atom_v, request, stream);
      },
      [placement = setup.placement](vacate_atom, int tag, const StreamActor& stream) {
        caf::anon_send(placement, vacate_atom_v, tag, stream);
      },
      [self, setup](drain_atom) { drain(self, *setup.status); },
      [self](grace_atom, caf::timespan grace) {
        self->state.grace = std::chrono::duration_cast<std::chrono::seconds>(grace);
      },
      [self](grace_atom) { end_audio(self); },
      [self, setup](stop_atom) { stop(self, *setup.status); },
  };
}

}  // namespace tutti
