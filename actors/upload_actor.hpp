#pragma once

#include <caf/actor_system.hpp>
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

/// Asks the gateway for a place, then transcribes. To be spawned detached: decoding a file on a thread that
/// others share would hold up live streams. Always quits once the reply is complete, the client is
/// gone, or its owner is lost: lease and request end with it.
UploadActor::behavior_type upload_actor(UploadActor::stateful_pointer<UploadActorState> self,
                                        const UploadSetup& setup, const GatewayActor& gateway);

/// On a thread of its own (prepare_upload_thread): decoding a file on one that others share would hold up
/// their live streams.
[[nodiscard]] UploadActor spawn_upload(caf::actor_system& system, const UploadSetup& setup,
                                       const GatewayActor& gateway);

}  // namespace tutti
