#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "cluster/interfaces.hpp"

namespace tutti {

struct RemoteOwnerSetup {
  EngineLink link;   ///< this end
  FramePeer engine;  ///< the other: its GatewayLink
  uint32_t owner = 0;
  RecognizerInfo info;
};

struct RemoteOwnerState {
  RemoteOwnerState() = default;  // an aggregate would be initialised from the actor's own address

  struct Seat {
    StreamActor stream;
    StreamOptions options;
    caf::typed_response_promise<Admission> promise;  // pending until it is admitted
  };
  std::unordered_map<uint64_t, Seat> seats;  // by the number of the stream; as many as the owner has places
  uint64_t admitted = 0;                     // in all
  std::optional<caf::typed_response_promise<OwnerHealth>> ping;
};

/// An owner of another process, as placement and streams know owners: what they say to it goes to the engine,
/// and what the engine says of its streams to them. It says nothing by itself, so it answers pings when the
/// owner does. Ends with its link.
RemoteOwner::behavior_type remote_owner(RemoteOwner::stateful_pointer<RemoteOwnerState> self,
                                        const RemoteOwnerSetup& setup);

}  // namespace tutti
