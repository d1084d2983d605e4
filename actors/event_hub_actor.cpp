#include "actors/event_hub_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <utility>
#include <variant>

#include "actors/log_exceptions.hpp"

namespace tutti {
namespace {

using Self = EventHubActor::stateful_pointer<EventHubState>;

/// Whether an event is only for those who are there, and may be left out.
bool is_passing(const proto::ServerEvent& event) {
  return std::holds_alternative<proto::Partial>(event) ||
         std::holds_alternative<proto::SpeechStarted>(event) ||
         std::holds_alternative<proto::SpeechStopped>(event);
}

class Place final : public SubscriptionPlace {
 public:
  Place(EventHubActor hub, uint64_t place) : hub_(std::move(hub)), place_(place) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() override { caf::anon_send(hub_, release_atom_v, place_); }

  void start(std::shared_ptr<SessionSink> sink) override {
    caf::anon_send(hub_, start_atom_v, SubscriptionStart{place_, std::move(sink)});
  }

 private:
  EventHubActor hub_;
  uint64_t place_;
};

class Feed final : public SessionFeed {
 public:
  Feed(EventHubActor hub, uint64_t number, Unpublished unpublished, std::shared_ptr<Metrics> metrics)
      : hub_(std::move(hub)),
        number_(number),
        unpublished_(std::move(unpublished)),
        metrics_(std::move(metrics)) {}

  void announce(const std::string& name) override {
    caf::anon_send(hub_, name_atom_v, SessionName{number_, name});
  }

  void on_event(const proto::TrackName& track, const proto::ServerEvent& event) override {
    if (std::holds_alternative<proto::Ready>(event)) return;
    if (is_passing(event) && unpublished_->fetch_add(1) >= max_unpublished) {
      --*unpublished_;
      return metrics_->event_unpublished();
    }
    caf::anon_send(hub_, event_atom_v,
                   SessionEvent{number_, track, std::make_shared<const proto::ServerEvent>(event)});
  }

  void end() override { caf::anon_send(hub_, closed_atom_v, number_); }

 private:
  EventHubActor hub_;
  uint64_t number_;
  Unpublished unpublished_;
  std::shared_ptr<Metrics> metrics_;
};

void forget(Self self) {
  const Clock::time_point now = Clock::now();
  const auto next = self->state.hub->forget(now);
  if (!next || std::exchange(self->state.forgetting, true)) return;
  self->delayed_send(self, *next - now, idle_atom_v);
}

void subscribe(Self self, const Subscription& subscription) {
  const auto place = self->state.hub->take_place(subscription.request);
  if (!place) return subscription.answer(tl::unexpected(place.error()));
  subscription.answer(std::make_unique<Place>(EventHubActor{self}, *place));
}

}  // namespace

EventHubActor::behavior_type event_hub_actor(Self self, const EventHubLimits& limits,
                                             const CallbackRule& callback,
                                             const std::shared_ptr<Metrics>& metrics,
                                             const Unpublished& unpublished) {
  log_exceptions(self, "the event hub");
  self->state.hub.emplace(limits, metrics, callback);

  return {
      [self](open_atom, const SessionOpening& opening) { self->state.hub->open(opening); },
      [self](name_atom, const SessionName& name) { self->state.hub->announce(name.number, name.name); },
      [self, unpublished](event_atom, const SessionEvent& event) {
        if (is_passing(*event.event)) --*unpublished;
        self->state.hub->publish(event.number, event.track, *event.event);
      },
      [self](closed_atom, uint64_t number) {
        self->state.hub->end(number, Clock::now());
        forget(self);
      },
      [self](subscribe_atom, const Subscription& subscription) { subscribe(self, subscription); },
      [self](start_atom, const SubscriptionStart& start) { self->state.hub->start(start.place, start.sink); },
      [self](release_atom, uint64_t place) { self->state.hub->give_back(place); },
      [self](idle_atom) {
        self->state.forgetting = false;
        forget(self);
      },
      [self](stop_atom) {
        self->state.hub.reset();  // before anybody is told that this has quit
        self->quit();
      },
  };
}

EventHubBridge::EventHubBridge(caf::actor_system& system, const EventHubLimits& limits,
                               std::shared_ptr<Metrics> metrics, const CallbackRule& callback)
    : metrics_(std::move(metrics)),
      hub_(system.spawn(event_hub_actor, limits, callback, metrics_, unpublished_)) {}

std::unique_ptr<SessionFeed> EventHubBridge::open_feed(SessionOpening opening) {
  opening.number = ++sessions_;
  const uint64_t number = opening.number;
  caf::anon_send(hub_, open_atom_v, std::move(opening));
  return std::make_unique<Feed>(hub_, number, unpublished_, metrics_);
}

void EventHubBridge::take_place(SubscriptionRequest request, Answer answer) {
  caf::anon_send(hub_, subscribe_atom_v, Subscription{std::move(request), std::move(answer)});
}

}  // namespace tutti
