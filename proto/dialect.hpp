#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/result.hpp"
#include "proto/events.hpp"

namespace tutti::proto {

/// Why a session is closed: WebSocket close codes (RFC 6455 section 7.4.1).
enum class CloseReason : uint16_t {
  normal = 1000,
  going_away = 1001,
  policy = 1008,
  too_big = 1009,
  internal = 1011,
  try_again_later = 1013,
};

/// The close code that fits an error of the recognizer or the server, by Error::code: another try may succeed
/// here (full, no_device), elsewhere (draining, stopped), or only with another request.
[[nodiscard]] CloseReason close_reason(std::string_view error_code);

using Headers = std::vector<std::pair<std::string, std::string>>;

/// The request that a WebSocket session begins with. Who may come in was decided before.
struct Handshake {
  std::string session;  ///< a name of the session's own: a random UUID (RFC 4122 version 4)
  std::string path;
  std::string query;  ///< as it came, without the question mark: see parse_query
  Headers headers;
  std::chrono::system_clock::time_point time;

  /// The first header of that name, in any case; empty without one.
  [[nodiscard]] std::string_view header(std::string_view name) const;
  /// What Sec-WebSocket-Protocol offers, in the client's order.
  [[nodiscard]] std::vector<std::string_view> subprotocols() const;
};

// What a dialect wants done. A *track* is one recognition stream of the session; the dialect numbers its
// tracks as it likes, and may use a number again after the track's last event. What names a track that is not
// open, or whose audio was ended, is without effect.

/// Asks for a recognition stream. Answered by Ready, or by a fatal error and the track is closed again. Audio
/// and commands need not wait for the answer.
struct OpenTrack {
  int track = 0;
  StreamRequest request;
  std::string label = {};  ///< what the client calls it; empty = nothing
};
/// Audio as the track's request says; it may be split anywhere between two of them. Raw Opus packets come as
/// OpusFramer makes them. What is more than
/// the message brought, such as silence for what was lost on the way, is owed: the client is read again when
/// it has been heard.
struct TrackAudio {
  int track = 0;
  std::vector<std::byte> bytes;
};
/// Everything sent to the track so far becomes exactly one final, possibly empty, with reason `finalize`.
struct FinalizeTrack {
  int track = 0;
};
/// Forgets the open segment and the audio sent to the track so far, without a final.
struct ResetTrack {
  int track = 0;
};
/// The last final, with reason `eof`, then Done: the track is closed.
struct EndTrack {
  int track = 0;
};
/// One text message. At most one partial waits for a slow reader, and gives way to what comes after it; all
/// other messages are kept.
struct Reply {
  std::string text;
  bool is_partial = false;
};
/// The client's message had no effect: it is counted. Whether the client is told is up to a Reply.
struct Ignored {
  Error reason;
};
/// What others call the session, beside its own name: under both they find its results. A session may have
/// max_names of them.
struct Announce {
  std::string name;
};
/// Sends what is queued, then closes. Tracks still open are released without another event, and what follows
/// is without effect.
struct Close {
  CloseReason code = CloseReason::normal;
  std::string message;
  std::string error_code =
      {};  ///< to be counted, when an error of the client's is why; one of the server's own words
};

using Action =
    std::variant<OpenTrack, TrackAudio, FinalizeTrack, ResetTrack, EndTrack, Reply, Ignored, Announce, Close>;
/// In the order in which they are done.
using Actions = std::vector<Action>;

/// Tracks of a session that may be open at a time; another one fails with "too_many_tracks".
inline constexpr int max_tracks = 8;
/// Names by which others find a session.
inline constexpr int max_names = 4;

/// One client's conversation: turns its messages into actions on recognition streams, and their events into
/// its messages. One object a session; pure: no sockets, no clock, no threads. Calls do not overlap; what a
/// call appends to `actions` is done when it has returned, and an event that this causes is another call.
///
/// A client's input is untrusted: no message may make a call throw, or the object grow without a bound.
class Dialect {
 public:
  virtual ~Dialect() = default;

  /// Whether text messages carry audio. Their bytes then count against the session's credit, which is given
  /// back as what they carried is recognized, and at once for what they did not carry. Else text is only
  /// commands, few of which may be waiting for their effect.
  [[nodiscard]] virtual bool has_audio_in_text() const { return false; }

  /// Whether the client does not read its results, which are for others. What it has sent is then recognized
  /// to its end also when it hangs up.
  [[nodiscard]] virtual bool is_heard_elsewhere() const { return false; }

  /// The session is open.
  virtual void on_open(Actions& /*actions*/) {}
  virtual void on_text(std::string_view message, Actions& actions) = 0;
  /// A part of a binary message; `ends_message` with the last.
  virtual void on_binary(std::span<const std::byte> bytes, bool ends_message, Actions& actions) = 0;

  /// A track says something. ErrorEvent is always fatal here, and the track is closed; the session is not.
  virtual void on_event(int track, const ServerEvent& event, Actions& actions) = 0;
  /// The first `bytes` of the track's audio have had their effect: they were recognized, or cannot be before
  /// more comes. After the events they caused; only told when it has grown. Coded audio is counted as what it
  /// would be in 16-bit samples at the request's rate.
  virtual void on_heard(int /*track*/, int64_t /*bytes*/, Actions& /*actions*/) {}

  /// How long the client may be silent, the same at all times: after so long without any message on_idle is
  /// called, and again after each further time. Time in which the server did not read does not count.
  [[nodiscard]] virtual std::optional<std::chrono::milliseconds> idle_limit() const { return std::nullopt; }
  virtual void on_idle(Actions& /*actions*/) {}

  /// The server ends the session: what is the client told? All tracks are gone, or, where the client is heard
  /// elsewhere, at the end of their audio. Without a Close the session
  /// is closed with close_reason(error.code) and the error's message.
  virtual void on_fault(const Error& error, Actions& actions) = 0;
};

/// The answer to a handshake.
struct Accepted {
  std::unique_ptr<Dialect> dialect;
  std::string subprotocol;  ///< of those offered; empty = none
  Headers headers;          ///< added to the response
};
/// Or an HTTP response instead, with a JSON body.
struct Refused {
  unsigned status = 400;
  std::string body;
  Headers headers;
};
using Acceptance = std::variant<Accepted, Refused>;

}  // namespace tutti::proto
