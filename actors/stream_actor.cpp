#include "actors/stream_actor.hpp"

#include <utility>

#include "actors/log_exceptions.hpp"

namespace tutti {
namespace {

using Self = StreamActor::stateful_pointer<StreamActorState>;

void quit_if_ended(Self self) {
  if (self->state.stream->ended()) self->quit();
}

void on_admission(Self self, const Admission& admission) {
  if (admission) {
    self->monitor((*admission)->owner());
    self->state.stream->open(std::move(**admission));
  } else {
    self->state.stream->refuse(admission.error());
  }
  quit_if_ended(self);
}

void ask_for_place(Self self, const GatewayActor& gateway) {
  self->request(gateway, caf::infinite, open_atom_v, self->state.stream->options(), StreamActor{self})
      .then(
          [self](const Admission& admission) { on_admission(self, admission); },
          [self](const caf::error&) { on_admission(self, fail("draining", "the server is shutting down")); });
}

void fail_stream(Self self, Error error, CloseReason reason) {
  self->state.stream->fail(std::move(error), reason);
  quit_if_ended(self);
}

}  // namespace

StreamActor::behavior_type stream_actor(Self self, const StreamSetup& setup, const GatewayActor& gateway) {
  log_exceptions(self, "stream " + setup.session);
  const auto request = proto::parse_stream_request(setup.query);
  // A request that cannot be read is answered in JSON: the format it asked for is not known.
  self->state.stream.emplace(setup, request.value_or(proto::NativeRequest{}));
  self->set_down_handler([self](const caf::down_msg&) {
    fail_stream(self, {"owner_lost", "the device of this stream failed; connect again"},
                CloseReason::internal);
  });
  if (request) {
    ask_for_place(self, gateway);
  } else {
    self->state.stream->refuse(request.error());
    self->quit();
  }

  return {
      [self](audio_atom, const AudioBytes& audio) {
        self->state.stream->on_audio(audio);
        quit_if_ended(self);
      },
      [self](text_atom, const std::string& message) {
        self->state.stream->on_text(message);
        quit_if_ended(self);
      },
      [self](closed_atom) { self->quit(); },
      [self](overrun_atom) {
        fail_stream(self, {"overrun", "more was sent than this session may have unprocessed"},
                    CloseReason::policy);
      },
      [self](update_atom, const StreamUpdates& updates) {
        self->state.stream->on_updates(updates.updates->items);
        quit_if_ended(self);
      },
      [self](drain_atom) {
        self->state.stream->drain();
        quit_if_ended(self);
      },
      [self](stop_atom) {
        fail_stream(self, {"stopped", "the server stopped before this stream had finished"},
                    CloseReason::going_away);
      },
  };
}

}  // namespace tutti
