#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <optional>

#include "actors/conversation.hpp"
#include "actors/interfaces.hpp"

namespace tutti {

struct StreamActorState {
  StreamActorState() = default;  // an aggregate would be initialised from the actor's own address
  std::optional<Conversation> conversation;
};

/// Asks the gateway for the places its session's dialect wants, then recognizes. Always quits once its
/// session is closed, by either side: leases and session end with it.
StreamActor::behavior_type stream_actor(StreamActor::stateful_pointer<StreamActorState> self,
                                        const StreamSetup& setup, const GatewayActor& gateway);

}  // namespace tutti
