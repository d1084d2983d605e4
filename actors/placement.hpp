#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "actors/interfaces.hpp"

namespace tutti {

/// An owner that was started.
struct PlacedOwner {
  GpuOwner actor;
  int max_streams = 0;
};

struct PlacementState {
  PlacementState() = default;  // an aggregate would be initialised from the actor's own address

  struct Owner {
    GpuOwner actor;
    int free = 0;
    bool alive = true;
  };
  std::vector<Owner> owners;
  using Place = std::pair<caf::actor_addr, int>;  // a session and its StreamOptions::tag
  std::map<Place, size_t> placed;                 // to the index of its owner
};

/// Gives a new stream to the owner with the most free places (the first of equals), or refuses: "full", or
/// "no_device" when no owner is left. An owner that turns out to be full or dead is passed over for the next.
/// Sessions are watched, so that their places are free again when they have ended, however that came about;
/// one that goes on gives a single place back itself. `on_last_owner_lost` is called when the last owner has
/// died.
PlacementActor::behavior_type placement_actor(PlacementActor::stateful_pointer<PlacementState> self,
                                              const std::vector<PlacedOwner>& owners,
                                              const std::function<void()>& on_last_owner_lost);

}  // namespace tutti
