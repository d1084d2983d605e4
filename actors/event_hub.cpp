#include "actors/event_hub.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <variant>

#include "proto/parameter.hpp"

namespace tutti {
namespace {

struct Kind {
  std::string_view type;
  bool is_kept;
};

Kind kind_of(const proto::ServerEvent& event) {
  // In the order of proto::ServerEvent.
  constexpr std::array<Kind, std::variant_size_v<proto::ServerEvent>> kinds{{
      {"ready", false},
      {"speech_started", false},
      {"speech_stopped", false},
      {"partial", false},
      {"final", true},
      {"done", true},
      {"error", true},
  }};
  return kinds[event.index()];
}

}  // namespace

EventHub::EventHub(const EventHubLimits& limits, std::shared_ptr<Metrics> metrics, CallbackRule callback)
    : limits_(limits), metrics_(std::move(metrics)), callback_(std::move(callback)) {}

EventHub::~EventHub() {
  for (auto& [place, subscriber] : subscribers_) {
    close(subscriber, CloseReason::going_away, "the server is shutting down");
    metrics_->subscriber_closed();
  }
}

void EventHub::open(const SessionOpening& opening) {
  Session& session = sessions_[opening.number];
  session.name = opening.session;
  session.client = opening.client;
  session.dialect = opening.dialect;
  session.calls_back = callback_.port && (callback_.all_sessions || opening.is_heard_elsewhere);
  announce(opening.number, opening.session);
}

void EventHub::announce(uint64_t number, const std::string& name) {
  const auto found = sessions_.find(number);
  if (found == sessions_.end()) return;
  Session& session = found->second;
  Name full(session.client, name);
  if (session.names.size() > static_cast<size_t>(proto::max_names)) return;  // its own is among them
  // A session's own name is random: nobody can take it by announcing it.
  const auto owner = names_.find(full);
  if (owner != names_.end()) {
    if (owner->second == number) return;
    const auto other = sessions_.find(owner->second);
    if (other != sessions_.end() && other->second.name == name) return;
  }
  names_[full] = number;
  session.names.push_back(std::move(full));
}

void EventHub::publish(uint64_t number, const proto::TrackName& track, const proto::ServerEvent& event) {
  const auto found = sessions_.find(number);
  if (found == sessions_.end() || std::holds_alternative<proto::Ready>(event)) return;
  Session& session = found->second;
  const auto [type, is_kept] = kind_of(event);
  if (!is_kept && session.places.empty()) return;
  std::string json = proto::write_event(event, track);
  if (is_kept) return keep(session, type, std::move(json));
  tell(session, type, json, std::holds_alternative<proto::Partial>(event));
}

void EventHub::keep(Session& session, std::string_view type, std::string json) {
  session.kept_bytes += json.size();
  session.kept.push_back({.number = ++session.last_number, .type = type, .json = std::move(json)});
  if (session.calls_back) call_back(session, session.kept.back());
  while (session.kept.size() > max_kept_events ||
         (session.kept_bytes > limits_.max_kept_bytes && session.kept.size() > 1)) {
    session.kept_bytes -= session.kept.front().json.size();
    session.kept.pop_front();
  }
  for (const uint64_t place : session.places) {
    Subscriber& subscriber = subscribers_.at(place);
    if (subscriber.sink) send_kept(session, session.kept.back(), subscriber);
  }
}

void EventHub::call_back(const Session& session, const Kept& kept) {
  std::vector<std::string> names;  // without its own, which is first
  for (const Name& name : std::views::drop(session.names, 1)) names.push_back(name.second);
  callback_.port->post(fmt::format("{}:{}", session.name, kept.number),
                       proto::write_callback({.session = session.name,
                                              .names = std::move(names),
                                              .dialect = session.dialect,
                                              .client = session.client,
                                              .number = kept.number},
                                             kept.json));
}

void EventHub::tell(Session& session, std::string_view type, const std::string& json, bool is_partial) {
  for (const uint64_t place : session.places) {
    const Subscriber& subscriber = subscribers_.at(place);
    if (!subscriber.sink) continue;
    subscriber.sink->send(proto::write_subscriber_message(subscriber.form, type, json, std::nullopt),
                          is_partial);
  }
}

void EventHub::send_kept(const Session& session, const Kept& kept, Subscriber& subscriber) {
  if (kept.number <= subscriber.seen) return;
  subscriber.seen = kept.number;
  const proto::EventPlace place{.session = session.name, .number = kept.number};
  subscriber.sink->send(proto::write_subscriber_message(subscriber.form, kept.type, kept.json, place), false);
}

void EventHub::end(uint64_t number, Clock::time_point now) {
  const auto found = sessions_.find(number);
  if (found == sessions_.end() || found->second.ended) return;
  Session& session = found->second;
  const bool has_said_something = session.last_number != 0;
  session.ended = true;
  keep(session, "end", proto::end_json(session.name));
  for (const uint64_t place : session.places) {
    close(subscribers_.at(place), CloseReason::normal, "the session has ended");
  }
  if (!has_said_something && session.places.empty()) return erase(number);
  ended_.push_back({.number = number, .at = now});
  if (ended_.size() > limits_.max_ended) {
    erase(ended_.front().number);
    ended_.pop_front();
  }
}

std::optional<Clock::time_point> EventHub::forget(Clock::time_point now) {
  while (!ended_.empty() && ended_.front().at + limits_.keep_ended <= now) {
    erase(ended_.front().number);
    ended_.pop_front();
  }
  if (ended_.empty()) return std::nullopt;
  return ended_.front().at + limits_.keep_ended;
}

/// Those who have a place there and have not started find that out when they do.
void EventHub::erase(uint64_t number) {
  const auto found = sessions_.find(number);
  for (const Name& name : found->second.names) {
    const auto named = names_.find(name);
    if (named != names_.end() && named->second == number) names_.erase(named);
  }
  sessions_.erase(found);
}

Error EventHub::refused(std::string code, std::string message) const {
  metrics_->subscriber_refused(code);
  return {std::move(code), std::move(message)};
}

Result<uint64_t> EventHub::take_place(const SubscriptionRequest& request) {
  auto named = names_.find(Name(request.client, request.stream));
  // What came in without a key where others have one: a protocol that has none.
  if (named == names_.end()) named = names_.find(Name(std::string(), request.stream));
  if (named == names_.end()) {
    return tl::unexpected(refused(
        "no_such_stream",
        fmt::format("there is no stream {} now, nor was there lately; a stream is found by the UUID of its "
                    "session or a name that its client has told, from then on until {} s after its end",
                    proto::shown(request.stream), limits_.keep_ended.count())));
  }
  Session& session = sessions_.at(named->second);
  const uint64_t seen = request.after && request.after->session == session.name ? request.after->number : 0;
  if (session.ended && seen >= session.last_number) {
    return fail("nothing_new", "the stream has ended, and all of it was read");
  }
  if (subscribers_.size() >= static_cast<size_t>(limits_.max_subscribers) ||
      session.places.size() >= static_cast<size_t>(limits_.max_subscribers_per_stream)) {
    return tl::unexpected(refused(
        "too_many_subscribers",
        fmt::format("{} subscribers may read at a time (server.max_subscribers), {} of them one stream",
                    limits_.max_subscribers, limits_.max_subscribers_per_stream)));
  }
  const uint64_t place = next_place_++;
  subscribers_[place] = {.session = named->second, .form = request.form, .seen = seen, .sink = nullptr};
  session.places.push_back(place);
  metrics_->subscriber_opened();
  return place;
}

void EventHub::start(uint64_t place, std::shared_ptr<SessionSink> sink) {
  const auto found = subscribers_.find(place);
  if (found == subscribers_.end()) return;
  Subscriber& subscriber = found->second;
  subscriber.sink = std::move(sink);
  const auto session = sessions_.find(subscriber.session);
  if (session == sessions_.end()) {
    return close(subscriber, CloseReason::try_again_later, "the stream ended too long ago");
  }
  catch_up(session->second, subscriber);
  if (session->second.ended) close(subscriber, CloseReason::normal, "the session has ended");
}

void EventHub::catch_up(const Session& session, Subscriber& subscriber) {
  if (session.kept.empty()) return;
  const uint64_t first = session.kept.front().number;
  if (first > subscriber.seen + 1) {
    subscriber.sink->send(
        proto::write_subscriber_message(subscriber.form, "missed",
                                        proto::missed_json(first - 1 - subscriber.seen), std::nullopt),
        false);
  }
  for (const Kept& kept : session.kept) send_kept(session, kept, subscriber);
}

void EventHub::give_back(uint64_t place) {
  const auto found = subscribers_.find(place);
  if (found == subscribers_.end()) return;
  const auto session = sessions_.find(found->second.session);
  if (session != sessions_.end()) std::erase(session->second.places, place);
  subscribers_.erase(found);
  metrics_->subscriber_closed();
}

void EventHub::close(Subscriber& subscriber, CloseReason reason, std::string message) {
  if (subscriber.sink) std::exchange(subscriber.sink, nullptr)->close(reason, std::move(message));
}

}  // namespace tutti
