#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "cluster/cluster_metrics.hpp"
#include "cluster/interfaces.hpp"

namespace tutti {

struct EngineHostSetup {
  std::string version;  ///< of the program
  std::string name;     ///< of this process, for the logs of gateways
  std::string device;   ///< what it computes with
  std::shared_ptr<ClusterMetrics> metrics;
};

struct EngineHostState {
  EngineHostState() = default;  // an aggregate would be initialised from the actor's own address
  std::map<uint32_t, SharedOwner> owners;
  uint32_t last_owner = 0;
  std::map<caf::actor_addr, GatewayLink> links;
  bool draining = false;
};

/// Gateways of an engine; one more is refused.
inline constexpr size_t max_gateways = 256;

/// Lets gateways use the owners that have started here: those of the same program whose model is the one they
/// ask for.
EngineHost::behavior_type engine_host(EngineHost::stateful_pointer<EngineHostState> self,
                                      const EngineHostSetup& setup);

}  // namespace tutti
