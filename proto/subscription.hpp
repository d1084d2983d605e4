#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

namespace tutti::proto {

// What is written to those who read a session's results without being its client: see docs/subscribers.md.

/// The `{id}` of a path /v1/streams/{id}/events, decoded; nothing for any other path. Fails with
/// "bad_parameter".
[[nodiscard]] std::optional<Result<std::string>> watched_stream(std::string_view path);

enum class SubscriberForm : uint8_t {
  websocket,     ///< a message is a JSON object
  event_stream,  ///< server-sent events (WHATWG HTML, section 9.2)
};

/// How far a subscriber had read: what it sends as Last-Event-ID.
struct EventPlace {
  std::string session;
  uint64_t number = 0;
};
/// "SESSION:NUMBER"; nothing when it is not.
[[nodiscard]] std::optional<EventPlace> parse_event_place(std::string_view text);

/// One message. `json` is an object; `type` is the event's name. Only what can be read again has a place.
[[nodiscard]] std::string write_subscriber_message(SubscriberForm form, std::string_view type,
                                                   std::string_view json,
                                                   const std::optional<EventPlace>& place);

/// `count` of the session's events, all before the next, are not kept any more.
[[nodiscard]] std::string missed_json(uint64_t count);
/// The session has ended; nothing follows.
[[nodiscard]] std::string end_json(std::string_view session);

/// What a message of a callback says beside the event.
struct CallbackEnvelope {
  std::string session;
  std::vector<std::string> names;  ///< that it was announced under
  std::string dialect;
  std::string client;  ///< the name of its API key; empty without keys
  uint64_t number = 0;
};
[[nodiscard]] std::string write_callback(const CallbackEnvelope& envelope, std::string_view event_json);

/// What an event stream begins with: after how long a client that lost it should come back.
[[nodiscard]] std::string event_stream_retry(std::chrono::milliseconds delay);
/// What says nothing, and keeps proxies from closing a silent connection.
inline constexpr std::string_view event_stream_keep_alive = ":\n\n";

}  // namespace tutti::proto
