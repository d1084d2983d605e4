#pragma once

#include <atomic>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "actors/event_hub.hpp"
#include "actors/interfaces.hpp"
#include "actors/session_feed.hpp"

namespace tutti {

/// Partials and voice events that may wait for the hub; more are not published.
inline constexpr int max_unpublished = 4096;

/// How many of them wait: counted up by the feeds, and down by the hub.
using Unpublished = std::shared_ptr<std::atomic<int>>;

struct EventHubState {
  EventHubState() = default;  // an aggregate would be initialised from the actor's own address
  std::optional<EventHub> hub;
  bool forgetting = false;  // a message to itself is under way
};

EventHubActor::behavior_type event_hub_actor(EventHubActor::stateful_pointer<EventHubState> self,
                                             const EventHubLimits& limits, const CallbackRule& callback,
                                             const std::shared_ptr<Metrics>& metrics,
                                             const Unpublished& unpublished);

/// The hub as sessions and the network see it.
class EventHubBridge final : public SubscriptionPort {
 public:
  EventHubBridge(caf::actor_system& system, const EventHubLimits& limits, std::shared_ptr<Metrics> metrics,
                 const CallbackRule& callback = {});

  /// Of a session that begins; its number is given here.
  [[nodiscard]] std::unique_ptr<SessionFeed> open_feed(SessionOpening opening);
  void take_place(SubscriptionRequest request, Answer answer) override;
  [[nodiscard]] const EventHubActor& actor() const { return hub_; }

 private:
  std::shared_ptr<Metrics> metrics_;
  Unpublished unpublished_ = std::make_shared<std::atomic<int>>(0);
  EventHubActor hub_;
  std::atomic<uint64_t> sessions_{0};
};

}  // namespace tutti
