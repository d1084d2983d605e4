#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <optional>

#include "actors/interfaces.hpp"
#include "actors/upload_job.hpp"

namespace tutti {

struct UploadActorState {
  UploadActorState() = default;  // an aggregate would be initialised from the actor's own address
  std::optional<UploadJob> job;
  bool turn_pending = false;
};

/// Asks the gateway for a place, then transcribes. Always quits once the reply is complete, the client is
/// gone, or its owner is lost: lease and request end with it.
UploadActor::behavior_type upload_actor(UploadActor::stateful_pointer<UploadActorState> self,
                                        const UploadSetup& setup, const GatewayActor& gateway);

}  // namespace tutti
