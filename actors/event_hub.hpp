#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/callback_port.hpp"
#include "actors/messages.hpp"
#include "actors/metrics.hpp"
#include "actors/ports.hpp"
#include "engine/clock.hpp"
#include "proto/events.hpp"
#include "proto/native.hpp"
#include "proto/subscription.hpp"

namespace tutti {

struct EventHubLimits {
  int max_subscribers = 1024;
  int max_subscribers_per_stream = 32;
  size_t max_kept_bytes = 64 << 10;  ///< of a session's events; the newest is kept whatever its length
  size_t max_ended = 256;            ///< sessions that can still be read after their end
  std::chrono::seconds keep_ended{60};
};

/// Who is told, beside the subscribers, and of what sessions.
struct CallbackRule {
  std::shared_ptr<CallbackPort> port;  ///< null = nobody
  bool all_sessions = false;           ///< else those that are heard elsewhere
};

/// The sessions that can be watched and those who do: what is heard goes to whom it is for, and what has to
/// last is kept, for a while, for who comes later. Single-threaded; the actor around it adds the mailbox.
///
/// Finals, `done`, errors and the end are numbered and kept, the oldest give way to the newest; partials and
/// voice events are for those who are there.
class EventHub {
 public:
  EventHub(const EventHubLimits& limits, std::shared_ptr<Metrics> metrics, CallbackRule callback = {});
  EventHub(const EventHub&) = delete;
  EventHub& operator=(const EventHub&) = delete;
  /// Closes all subscribers.
  ~EventHub();

  void open(const SessionOpening& opening);
  /// The newest session of a client's that has a name is the one it finds.
  void announce(uint64_t number, const std::string& name);
  void publish(uint64_t number, const proto::TrackName& track, const proto::ServerEvent& event);
  void end(uint64_t number, Clock::time_point now);
  /// Lets go what has ended for long enough. Returns when to be called again; nothing while all go on.
  [[nodiscard]] std::optional<Clock::time_point> forget(Clock::time_point now);

  /// A subscriber's number. Fails as SubscriptionPort says.
  [[nodiscard]] Result<uint64_t> take_place(const SubscriptionRequest& request);
  void start(uint64_t place, std::shared_ptr<SessionSink> sink);
  void give_back(uint64_t place);

 private:
  struct Kept {
    uint64_t number;
    std::string_view type;
    std::string json;
  };
  using Name = std::pair<std::string, std::string>;  // client, name
  struct Session {
    std::string name;
    std::string client;
    std::string dialect;
    bool calls_back = false;
    std::vector<Name> names;
    std::deque<Kept> kept;
    size_t kept_bytes = 0;
    uint64_t last_number = 0;
    std::vector<uint64_t> places;
    bool ended = false;
  };
  struct Subscriber {
    uint64_t session;
    proto::SubscriberForm form;
    uint64_t seen;                      // the last number
    std::shared_ptr<SessionSink> sink;  // null before start
  };
  struct Ended {
    uint64_t number;
    Clock::time_point at;
  };

  void call_back(const Session& session, const Kept& kept);
  void keep(Session& session, std::string_view type, std::string json);
  void tell(Session& session, std::string_view type, const std::string& json, bool is_partial);
  static void send_kept(const Session& session, const Kept& kept, Subscriber& subscriber);
  static void catch_up(const Session& session, Subscriber& subscriber);
  static void close(Subscriber& subscriber, CloseReason reason, std::string message);
  void erase(uint64_t number);
  [[nodiscard]] Error refused(std::string code, std::string message) const;

  EventHubLimits limits_;
  std::shared_ptr<Metrics> metrics_;
  CallbackRule callback_;
  std::map<uint64_t, Session> sessions_;
  std::map<Name, uint64_t> names_;
  std::deque<Ended> ended_;
  std::map<uint64_t, Subscriber> subscribers_;
  uint64_t next_place_ = 0;
};

}  // namespace tutti
