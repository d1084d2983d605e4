#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <optional>

#include "actors/interfaces.hpp"
#include "actors/recognition_stream.hpp"

namespace tutti {

struct StreamActorState {
  StreamActorState() = default;  // an aggregate would be initialised from the actor's own address
  std::optional<RecognitionStream> stream;
};

/// Asks the gateway for a place, then recognizes. Always quits once its session is closed, by either side or
/// by the loss of its owner ("owner_lost"): lease and session end with it.
StreamActor::behavior_type stream_actor(StreamActor::stateful_pointer<StreamActorState> self,
                                        const StreamSetup& setup, const GatewayActor& gateway);

}  // namespace tutti
