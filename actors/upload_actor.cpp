#include "actors/upload_actor.hpp"

#include <utility>

#include "actors/server_status.hpp"
#include "actors/thread_roles.hpp"

namespace tutti {
namespace {

using Self = UploadActor::stateful_pointer<UploadActorState>;

/// After every message: decodes for one turn, and takes the next by a message to itself.
void go_on(Self self) {
  UploadJob& job = *self->state.job;
  const bool wants_another_turn = job.decode();
  if (job.ended()) return self->quit();
  if (!wants_another_turn || self->state.turn_pending) return;
  self->state.turn_pending = true;
  self->send(self, decode_atom_v);
}

void on_admission(Self self, const Admission& admission) {
  if (admission) {
    self->state.job->open(std::move(**admission));
  } else {
    self->state.job->refuse(admission.error());
  }
  go_on(self);
}

void ask_for_place(Self self, const GatewayActor& gateway, const PlaceRequest& request) {
  self->request(gateway, caf::infinite, open_atom_v, request, StreamActor{UploadActor{self}})
      .then([self](const Admission& admission) { on_admission(self, admission); },
            [self](const caf::error&) { on_admission(self, tl::unexpected(draining_refusal())); });
}

void fail_job(Self self, std::string code, std::string message) {
  self->state.job->fail({.status = 503, .code = std::move(code), .message = std::move(message), .param = {}});
  self->quit();
}

}  // namespace

UploadActor::behavior_type upload_actor(Self self, const UploadSetup& setup, const GatewayActor& gateway) {
  self->state.job.emplace(setup);
  if (self->state.job->ended()) {
    self->quit();
  } else {
    ask_for_place(self, gateway, {.options = self->state.job->options()});
  }

  return {
      // A live session's; an upload has its audio from the start.
      [](audio_atom, const AudioBytes&) {},
      [](text_atom, const TextMessage&) {},
      [self](closed_atom) { self->quit(); },
      [](fault_atom, const Error&) {},
      [self](update_atom, const StreamUpdates& updates) {
        self->state.job->on_updates(updates);
        go_on(self);
      },
      [self, gateway](lost_atom, const caf::actor_addr& owner) {
        if (!self->state.job->is_on(owner)) return;
        if (!self->state.job->lose_owner()) return self->quit();
        ask_for_place(self, gateway,
                      {.options = self->state.job->options(),
                       .is_move = true,
                       .model_identity = self->state.job->model_identity()});
      },
      [](idle_atom) {},
      // Half a transcript would pass for the whole: it has the grace period to come to its end.
      [](drain_atom) {},
      [self](stop_atom) {
        fail_job(self, "stopped", "the server stopped before this transcription had finished");
      },
      [self](decode_atom) {
        self->state.turn_pending = false;
        go_on(self);
      },
      [self](written_atom, uint64_t bytes) {
        self->state.job->on_written(static_cast<size_t>(bytes));
        go_on(self);
      },
  };
}

UploadActor spawn_upload(caf::actor_system& system, const UploadSetup& setup, const GatewayActor& gateway) {
  return system.spawn<caf::detached>(
      [](Self self, const UploadSetup& upload, const GatewayActor& let_in) -> UploadActor::behavior_type {
        prepare_upload_thread();
        return upload_actor(self, upload, let_in);
      },
      setup, gateway);
}

}  // namespace tutti
