#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "actors/stream_context.hpp"
#include "cluster/cluster_metrics.hpp"
#include "cluster/interfaces.hpp"

namespace tutti {

struct GatewayLinkSetup {
  EngineHost host;    ///< which it ends with
  FramePeer gateway;  ///< its EngineLink
  std::string name;   ///< of the gateway, for the log
  wire::Joined joined;
  std::map<uint32_t, SharedOwner> owners;  ///< those of `joined`
  std::shared_ptr<ClusterMetrics> metrics;
};

struct GatewayLinkState {
  GatewayLinkState() = default;  // an aggregate would be initialised from the actor's own address
  GatewayLinkState(const GatewayLinkState&) = delete;
  GatewayLinkState& operator=(const GatewayLinkState&) = delete;
  ~GatewayLinkState();

  struct Owner {
    SharedOwner shared;
    bool pinged = false;  // and not answered
  };
  struct Stream {
    uint32_t owner = 0;
    int tag = 0;                           // its name here
    std::optional<StreamContext> context;  // once admitted
  };
  std::map<uint32_t, Owner> owners;
  std::unordered_map<uint64_t, Stream> streams;  // by the gateway's number; as many as there are places
  std::unordered_map<int, uint64_t> numbers;     // by StreamOptions::tag of this side
  int last_tag = 0;
  std::shared_ptr<ClusterMetrics> metrics;
};

/// Holds the leases of a gateway's streams, feeds them as the gateway says, and tells it what is recognized.
/// Ends when the gateway is gone or says what it should not, and then all these leases with it.
GatewayLink::behavior_type gateway_link(GatewayLink::stateful_pointer<GatewayLinkState> self,
                                        const GatewayLinkSetup& setup);

}  // namespace tutti
