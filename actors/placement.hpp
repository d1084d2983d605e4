#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "actors/interfaces.hpp"
#include "actors/metrics.hpp"
#include "actors/server_status.hpp"

namespace tutti {

/// How long a stream that lost its owner waits for a place on another.
inline constexpr std::chrono::seconds move_wait{15};
/// Between two owners of a device that fails again and again.
inline constexpr std::chrono::seconds replacement_pause{10};

struct PlacementSetup {
  std::vector<PlacedOwner> owners;
  PlacementRules rules;
  std::shared_ptr<ServerStatus> status;
  std::shared_ptr<Metrics> metrics;
};

struct PlacementState {
  PlacementState() = default;  // an aggregate would be initialised from the actor's own address
  PlacementState(const PlacementState&) = delete;
  PlacementState& operator=(const PlacementState&) = delete;
  /// Ends the owners.
  ~PlacementState();

  using Time = caf::actor_clock::time_point;

  struct Owner : PlacedOwner {
    int free = 0;
    int taken_since_ping = 0;           // places; the answer does not know of them
    bool started = true;                // else a replacement that is not ready, or nothing
    bool answers = true;                // within owner_timeout
    bool overloaded = false;            // its streams come late
    bool retiring = false;              // gets no new streams, and ends when it has none
    std::optional<Time> pinged = {};    // and not answered
    std::optional<Time> replaced = {};  // with another, the last time

    [[nodiscard]] bool alive() const { return started && answers; }
    [[nodiscard]] bool serves() const { return alive() && !retiring; }
  };
  PlacementRules rules;
  std::map<int, Owner> owners;  // by number, in the order they came
  int last_owner = 0;
  using Place = std::pair<caf::actor_addr, int>;  // a session and its StreamOptions::tag
  std::map<Place, int> placed;                    // to the number of its owner

  /// A stream on its way to a place.
  struct Attempt {
    [[nodiscard]] Place place() const { return {stream.address(), request.options.tag}; }

    PlaceRequest request;
    StreamActor stream;
    caf::typed_response_promise<Admission> promise;
    std::set<int> tried;  // owners
    Time came;
    Time deadline;  // of its wait
  };
  std::map<uint64_t, Attempt> asked;  // owners are, and have not answered
  uint64_t last_asked = 0;
  std::deque<Attempt> moving;   // streams that have lost their owner wait first
  std::deque<Attempt> waiting;  // each in the order they came
};

/// Gives a new stream to the owner with the most free places (the first of equals). When there is none it
/// waits, in the order of arrival, or is refused: "full", "overloaded" when the owners with places are late
/// with the streams they have, "no_device" when no owner is left. An owner that turns out to be full is
/// passed over for the next. Sessions are watched, so that their places are free again when they have ended,
/// however that came about; one that goes on gives a single place back itself.
///
/// Owners are watched too. One that dies, or does not answer for owner_timeout, is lost: its streams are told
/// (lost_atom), and ask for a place on another, which new streams do not get before them. One that died is
/// replaced; one that only hung is taken back when it answers again.
///
/// Owners may join at any time, and retire: a retired one keeps the streams it has, and is ended with the
/// last. Owners of another model take over all at once: those of this process that were there retire. A
/// stream that moves only goes to an owner of the model that it began with, which may be a retired one.
PlacementActor::behavior_type placement_actor(PlacementActor::stateful_pointer<PlacementState> self,
                                              const PlacementSetup& setup);

}  // namespace tutti
