#include "actors/stream_actor.hpp"

#include <utility>

#include "actors/log_exceptions.hpp"
#include "actors/server_status.hpp"
#include "config/log_line.hpp"

namespace tutti {
namespace {

using Self = StreamActor::stateful_pointer<StreamActorState>;

void quit_if_ended(Self self) {
  if (self->state.conversation->ended()) self->quit();
}

void on_admission(Self self, int tag, const Admission& admission) {
  self->state.conversation->on_admission(tag, admission);
  quit_if_ended(self);
}

void ask_for_place(Self self, const GatewayActor& gateway, const PlaceRequest& request) {
  self->request(gateway, caf::infinite, open_atom_v, request, StreamActor{self})
      .then([self,
             tag = request.options.tag](const Admission& admission) { on_admission(self, tag, admission); },
            [self, tag = request.options.tag](const caf::error&) {
              on_admission(self, tag, tl::unexpected(draining_refusal()));
            });
}

void check_idle(Self self) {
  const Clock::time_point now = Clock::now();
  if (const auto next = self->state.conversation->check_idle(now)) {
    self->delayed_send(self, *next - now, idle_atom_v);
  }
  quit_if_ended(self);
}

}  // namespace

StreamActor::behavior_type stream_actor(Self self, const StreamSetup& setup, const GatewayActor& gateway) {
  log_exceptions(self, about(setup.session) + "its actor");
  self->state.conversation.emplace(
      setup,
      Conversation::Places{
          .ask = [self, gateway](const PlaceRequest& request) { ask_for_place(self, gateway, request); },
          .give_back = [self,
                        gateway](int tag) { caf::anon_send(gateway, vacate_atom_v, tag, StreamActor{self}); },
      });
  self->state.conversation->open();
  check_idle(self);

  return {
      [self](audio_atom, const AudioBytes& audio) {
        self->state.conversation->on_audio(audio);
        quit_if_ended(self);
      },
      [self](text_atom, const TextMessage& message) {
        self->state.conversation->on_text(message);
        quit_if_ended(self);
      },
      [self](closed_atom) {
        self->state.conversation->hang_up();
        quit_if_ended(self);
      },
      [self](fault_atom, const Error& error) {
        self->state.conversation->fault(error);
        quit_if_ended(self);
      },
      [self](update_atom, const StreamUpdates& updates) {
        self->state.conversation->on_updates(updates);
        quit_if_ended(self);
      },
      [self](lost_atom, const caf::actor_addr& owner) {
        self->state.conversation->on_owner_lost(owner);
        quit_if_ended(self);
      },
      [self](idle_atom) { check_idle(self); },
      [self](drain_atom) {
        self->state.conversation->drain();
        quit_if_ended(self);
      },
      [self](stop_atom) {
        self->state.conversation->stop();
        quit_if_ended(self);
      },
  };
}

}  // namespace tutti
