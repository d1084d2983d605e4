#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/result.hpp"
#include "proto/dialect.hpp"
#include "proto/subscription.hpp"

namespace tutti {

/// The plain interfaces between the actors and the network. net/ implements SessionSink and
/// calls StreamPort and GatewayPort; actors/ does the reverse; app/ wires them. All calls are asynchronous,
/// come from any thread and never block.

using proto::CloseReason;

/// A session, as its stream sees it. The stream actor holds it strongly: at credit 0 no I/O is pending and
/// nothing else keeps the session alive.
class SessionSink {
 public:
  virtual ~SessionSink() = default;
  /// Queues one text message. When the queue is full an unsent partial gives way; finals are kept, and a
  /// reader too slow for those is closed with `policy`.
  virtual void send(std::string message, bool is_partial) = 0;
  /// Allows the session to read `bytes` more of audio: of binary messages, and of text messages where they
  /// carry audio.
  virtual void grant(int64_t bytes) = 0;
  /// Sends what is queued, then closes.
  virtual void close(CloseReason reason, std::string message) = 0;
  /// Who is served, for the log: the name of the client's API key; empty without keys.
  [[nodiscard]] virtual std::string_view client() const { return {}; }
  /// Where the client is, for the log; empty when that is not known.
  [[nodiscard]] virtual std::string_view address() const { return {}; }
  /// So much audio is being recognized: a client may have only so much.
  virtual void note_audio(double /*seconds*/) {}
  /// Whether the client has ended its audio and waits for results: it may be silent meanwhile.
  virtual void await_results(bool /*waits*/) {}
};

/// A stream, as its session sees it. Destruction without on_closed counts as on_closed.
class StreamPort {
 public:
  virtual ~StreamPort() = default;
  /// A part of a binary message.
  virtual void on_audio(std::vector<std::byte> bytes, bool ends_message) = 0;
  /// A whole one.
  void on_audio(std::vector<std::byte> bytes) { on_audio(std::move(bytes), true); }
  virtual void on_text(std::string message) = 0;
  /// The session has to end, with what its dialect says then and a close. The last call.
  virtual void on_fault(Error error) = 0;
  /// The peer is gone (close frame, error, time-out); nothing can be sent any more.
  virtual void on_closed() = 0;
};

/// A session whose handshake a dialect has accepted.
struct SessionRequest {
  std::string session;            ///< its name: Handshake::session
  std::string_view dialect_name;  ///< of the table of dialects
  std::unique_ptr<proto::Dialect> dialect;
};

/// Where a session asks for its stream.
class GatewayPort {
 public:
  virtual ~GatewayPort() = default;
  /// Creates the stream of a freshly accepted session. What is wrong with the request, or that the server is
  /// full or draining, is told to `sink` in the dialect's way, followed by close.
  virtual std::unique_ptr<StreamPort> open_stream(SessionRequest request,
                                                  std::shared_ptr<SessionSink> sink) = 0;
};

/// Somebody who wants to read what a session hears.
struct SubscriptionRequest {
  std::string stream;  ///< the session, by its own name or one it was announced under
  std::string client;  ///< the name of the reader's API key; a key sees its own sessions alone
  proto::SubscriberForm form = proto::SubscriberForm::websocket;
  std::optional<proto::EventPlace> after;  ///< what the reader has seen
};

/// Events that are kept of a session for those who come later. They are sent at once, beside what may wait
/// for a slow reader anyway.
inline constexpr size_t max_kept_events = 64;

/// A reader's place at a session. Destruction gives it back.
class SubscriptionPlace {
 public:
  virtual ~SubscriptionPlace() = default;
  /// Begins with what is kept; closes the sink when the session has ended. Called once at most.
  virtual void start(std::shared_ptr<SessionSink> sink) = 0;
};

/// Where the network asks for such places.
class SubscriptionPort {
 public:
  /// Fails with "no_such_stream", "nothing_new" (the session has ended, and its reader has seen all), or
  /// "too_many_subscribers".
  using Answer = std::function<void(Result<std::unique_ptr<SubscriptionPlace>>)>;
  virtual ~SubscriptionPort() = default;
  /// `answer` is called from any thread, or dropped when the server ends.
  virtual void take_place(SubscriptionRequest request, Answer answer) = 0;
};

/// What uploads are counted by where sessions are by their dialect.
inline constexpr std::string_view upload_label = "upload";

/// A file to transcribe, as HTTP received it (proto/transcription.hpp says what it may hold).
struct UploadRequest {
  std::string content_type;
  std::string query;
  std::string body;
};

struct ReplyHead {
  unsigned status = 200;
  std::string content_type;
  std::optional<size_t> content_length;  ///< without it the reply comes as it is made
  std::vector<std::pair<std::string, std::string>> headers;
};

/// A request's reply, as its upload sees it: begin once, then write any number of times, then end; nothing
/// comes after that. An upload that was cancelled may stop anywhere.
class UploadSink {
 public:
  virtual ~UploadSink() = default;
  virtual void begin(ReplyHead head) = 0;
  /// Bounded by the upload: it makes no more while too much of it is not confirmed by on_written.
  virtual void write(std::string piece) = 0;
  virtual void end() = 0;
  /// So much audio is being recognized: a client may have only so much.
  virtual void note_audio(double /*seconds*/) {}
};

/// An upload's place, as its HTTP session sees it. Destruction gives the place back, and cancels what has not
/// come to its end. Calls do not overlap.
class UploadPlace {
 public:
  virtual ~UploadPlace() = default;
  /// The request is complete. Called once at most.
  virtual void start(UploadRequest request, std::shared_ptr<UploadSink> sink) = 0;
  /// `bytes` of what was written to the sink are on their way to the client.
  virtual void on_written(size_t bytes) = 0;
};

/// Where HTTP asks for a place, before it receives a body.
class UploadPort {
 public:
  virtual ~UploadPort() = default;
  /// Null when every place is taken.
  [[nodiscard]] virtual std::unique_ptr<UploadPlace> take_place() = 0;
};

/// What whoever runs the server can have done to it over HTTP.
class AdminPort {
 public:
  /// What was done, in a sentence.
  using Answer = std::function<void(Result<std::string>)>;
  virtual ~AdminPort() = default;
  /// Ends the server as SIGTERM does.
  virtual void drain() = 0;
  /// Has the configuration, and the files that it names, read again. What is wrong with one of them leaves
  /// all as it was. `answer` is called from any thread, as late as a model takes to load.
  virtual void reload(Answer answer) = 0;
};

struct ModelInfo {
  std::string name;
  int64_t loaded_at = 0;  ///< in seconds since 1970
};

/// What the HTTP side shows; answered without touching an actor. Implementations are thread-safe.
class StatusPort {
 public:
  virtual ~StatusPort() = default;
  [[nodiscard]] virtual bool ready() const = 0;
  /// Why a new stream would get no place now, which counts as its refusal; nothing when it would, as far as
  /// is known. To be asked for each that is to be opened, of a dialect or for an upload_label.
  [[nodiscard]] virtual std::optional<Error> refusal(std::string_view dialect) const = 0;
  /// Prometheus text exposition format.
  [[nodiscard]] virtual std::string metrics() const = 0;
  [[nodiscard]] virtual ModelInfo model() const = 0;
  /// A request for a stream, of a dialect or for an upload_label, was refused for a reason of the network's.
  virtual void note_refusal(std::string_view dialect, const std::string& reason) const = 0;
};

}  // namespace tutti
