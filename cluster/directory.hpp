#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "actors/server_status.hpp"
#include "cluster/cluster_metrics.hpp"
#include "cluster/interfaces.hpp"

namespace tutti {

struct DirectorySetup {
  std::vector<std::string> engines;  ///< "HOST:PORT"; a host may have many addresses, with an engine at each
  std::string version;               ///< of the program
  std::string name;                  ///< of this process, for the logs of engines
  int credit_ms = 0;                 ///< ServiceOptions'
  /// Of the owners that this process has itself; nothing = that of the first engine that joins, until none is
  /// left.
  std::optional<RecognizerIdentity> identity;
  std::shared_ptr<const ConformerCtc> model;  ///< theirs
  PlacementActor placement;
  std::shared_ptr<ServerStatus> status;
  std::shared_ptr<ClusterMetrics> metrics;

  // What takes time, and is done elsewhere: each answers with the message of its name.

  std::function<void(const Directory&, const std::string& name)> resolve;
  std::function<void(const Directory&, const std::string& address)> probe;
  /// To the EngineHost at an address; null, with the reason, when there is none.
  using Connected = std::function<void(const FramePeer&, const std::string& reason)>;
  std::function<void(Directory::pointer, const std::string& address, Connected)> connect;
};

struct DirectoryState {
  DirectoryState() = default;  // an aggregate would be initialised from the actor's own address
  using Time = caf::actor_clock::time_point;

  struct Owner {
    wire::OwnerDescription description;
    RemoteOwner actor;      // null while it is not used
    std::string objection;  // why
  };
  struct Engine {
    bool trying = false;
    bool joined = false;
    Time next_try{};
    int failures = 0;  // in a row
    std::string trouble;
    FramePeer host;
    EngineLink link;         // this end
    FramePeer gateway_link;  // the other
    std::map<uint32_t, Owner> owners;
  };
  struct Name {
    bool resolving = false;
    Time next_try{};
    std::vector<std::string> addresses;  // when it was resolved last
    std::string trouble;
  };
  std::map<std::string, Name> names;      // those of DirectorySetup::engines
  std::map<std::string, Engine> engines;  // by address
  std::optional<RecognizerIdentity> identity;
  std::minstd_rand random{std::random_device{}()};
};

/// Between two looks at the names.
inline constexpr std::chrono::seconds resolve_interval{2};
/// Between two attempts at an engine: doubled with each that fails, up to the longest.
inline constexpr std::chrono::milliseconds shortest_pause{500};
inline constexpr std::chrono::milliseconds longest_pause{4000};

/// Finds the engines of a gateway, again and again, joins each as soon as it can be spoken to, and gives its
/// owners to placement. One that is lost is tried again; one that does not answer keeps no other waiting.
Directory::behavior_type directory(Directory::stateful_pointer<DirectoryState> self,
                                   const DirectorySetup& setup);

}  // namespace tutti
