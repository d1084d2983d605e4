#pragma once

#include <caf/actor_system.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "actors/event_hub_actor.hpp"
#include "actors/interfaces.hpp"
#include "actors/metrics.hpp"
#include "actors/ports.hpp"

namespace tutti {

struct GatewaySetup {
  PlacementActor placement;
  std::shared_ptr<ServerStatus> status;
  std::chrono::seconds grace{10};  ///< how long draining waits before it stops streams
};

struct GatewayState {
  GatewayState() = default;       // an aggregate would be initialised from the actor's own address
  std::set<StreamActor> streams;  // let in and not ended
  ListenerPort* listener = nullptr;
  bool draining = false;
};

/// Lets streams in until it is told to drain: then it closes the listener, refuses what still comes
/// ("draining"), has every stream finish, stops those that have not within the grace period, and quits.
GatewayActor::behavior_type gateway_actor(GatewayActor::stateful_pointer<GatewayState> self,
                                          const GatewaySetup& setup);

/// The gateway as the network sees it: a stream actor for every session.
class GatewayBridge final : public GatewayPort {
 public:
  /// `endpoint` holds for streams whose client does not say when segments end. `hub` lives longer, and is
  /// told of every session.
  GatewayBridge(caf::actor_system& system, GatewayActor gateway, EventHubBridge& hub,
                std::shared_ptr<Metrics> metrics, int credit_ms, const EndpointRules& endpoint);
  std::unique_ptr<StreamPort> open_stream(SessionRequest request, std::shared_ptr<SessionSink> sink) override;

 private:
  caf::actor_system& system_;
  GatewayActor gateway_;
  EventHubBridge& hub_;
  std::shared_ptr<Metrics> metrics_;
  int credit_ms_;
  EndpointRules endpoint_;
};

}  // namespace tutti
