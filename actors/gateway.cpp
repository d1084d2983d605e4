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

void stop_accepting(Self self, ServerStatus& status) {
  if (std::exchange(self->state.draining, true)) return;
  status.set_ready(false);
  if (self->state.listener != nullptr) self->state.listener->stop_accepting();
}

void drain(Self self, ServerStatus& status, std::chrono::seconds grace) {
  if (self->state.draining) return;
  stop_accepting(self, status);
  spdlog::info("draining: {} open streams, up to {} s", self->state.streams.size(), grace.count());
  for (const StreamActor& stream : self->state.streams) caf::anon_send(stream, drain_atom_v);
  self->delayed_send(self, grace, stop_atom_v);
  quit_if_drained(self);
}

void stop(Self self, ServerStatus& status) {
  stop_accepting(self, status);
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
  self->set_down_handler([self](const caf::down_msg& down) {
    self->state.streams.erase(caf::actor_cast<StreamActor>(down.source));
    quit_if_drained(self);
  });

  return {
      [self, placement = setup.placement](open_atom, const StreamOptions& options,
                                          const StreamActor& stream) -> caf::result<Admission> {
        if (self->state.draining) return Admission(fail("draining", "the server is shutting down"));
        self->monitor(stream);
        self->state.streams.insert(stream);
        return self->delegate(placement, place_atom_v, options, stream);
      },
      [placement = setup.placement](vacate_atom, int tag, const StreamActor& stream) {
        caf::anon_send(placement, vacate_atom_v, tag, stream);
      },
      [self](listen_atom, const Listener& listener) { self->state.listener = listener.port; },
      [self, setup](drain_atom) { drain(self, *setup.status, setup.grace); },
      [self, setup](stop_atom) { stop(self, *setup.status); },
  };
}

}  // namespace tutti
