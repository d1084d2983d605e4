#pragma once

#include <caf/actor_system.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <memory>
#include <set>

#include "actors/event_hub_actor.hpp"
#include "actors/interfaces.hpp"
#include "actors/metrics.hpp"
#include "actors/ports.hpp"
#include "actors/published.hpp"
#include "actors/server_status.hpp"
#include "actors/trace_writer.hpp"

namespace tutti {

struct GatewaySetup {
  PlacementActor placement;
  std::shared_ptr<ServerStatus> status;
  std::chrono::seconds grace{10};  ///< how long draining lets streams go on
};

struct GatewayState {
  GatewayState() = default;       // an aggregate would be initialised from the actor's own address
  std::set<StreamActor> streams;  // let in and not ended
  bool draining = false;
  std::chrono::seconds grace{0};
};

/// What the finals of streams that the grace period has cut short may take.
inline constexpr std::chrono::seconds last_finals{5};

/// Lets streams in until it is told to drain: then new ones are refused ("draining"), and those that are open
/// go on. When the grace period is over the audio of the rest ends there, as if its client had said so; what
/// is left after last_finals is stopped. Quits when no stream is open.
GatewayActor::behavior_type gateway_actor(GatewayActor::stateful_pointer<GatewayState> self,
                                          const GatewaySetup& setup);

/// The gateway as the network sees it: a stream actor for every session.
class GatewayBridge final : public GatewayPort {
 public:
  /// `endpoint` holds for streams whose client does not say when segments end. `hub` lives longer, and is
  /// told of every session; `traces`, if there are any, keep what happens when.
  GatewayBridge(caf::actor_system& system, GatewayActor gateway, EventHubBridge& hub,
                std::shared_ptr<Metrics> metrics, int credit_ms, const EndpointRules& endpoint,
                std::shared_ptr<TraceWriter> traces = nullptr);
  std::unique_ptr<StreamPort> open_stream(SessionRequest request, std::shared_ptr<SessionSink> sink) override;
  /// As to the constructor, for sessions from now on. From one thread at a time.
  void use(int credit_ms, const EndpointRules& endpoint) { terms_.set({credit_ms, endpoint}); }

 private:
  struct Terms {
    int credit_ms;
    EndpointRules endpoint;
    bool operator==(const Terms& other) const {
      return credit_ms == other.credit_ms &&
             endpoint.silence_after_speech_ms == other.endpoint.silence_after_speech_ms &&
             endpoint.long_silence_ms == other.endpoint.long_silence_ms &&
             endpoint.max_segment_ms == other.endpoint.max_segment_ms;
    }
  };

  caf::actor_system& system_;
  GatewayActor gateway_;
  EventHubBridge& hub_;
  std::shared_ptr<Metrics> metrics_;
  Published<Terms> terms_;
  std::shared_ptr<TraceWriter> traces_;
};

}  // namespace tutti
