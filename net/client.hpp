#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/client_url.hpp"

namespace tutti {

/// How a client's connection ended.
struct ClientEnd {
  enum class Kind : uint8_t {
    unreachable,  ///< no connection was made
    untrusted,    ///< TLS was not agreed on: its certificate is not trusted, or not for this host
    refused,      ///< the server answered the upgrade with an HTTP status, which is `code`
    closed,       ///< by the server, with WebSocket close code `code`
    lost,         ///< the connection broke
  };
  Kind kind = Kind::lost;
  int code = 0;
  std::string message;  ///< of the system, the response's body, or the close reason; may be empty
};

/// The thread of any number of clients, and their clock. Nothing here locks: everything happens inside run().
class ClientLoop {
 public:
  using Task = std::function<void()>;
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Of TLS, clients believe the certificates that the system trusts and those of `ca_file` (PEM), when it
  /// is given. Throws SetupError when that cannot be read.
  explicit ClientLoop(const std::string& ca_file = {});
  ~ClientLoop();
  ClientLoop(const ClientLoop&) = delete;
  ClientLoop& operator=(const ClientLoop&) = delete;

  /// Returns when no connection is open and no task waits. Exceptions of tasks and listeners pass through.
  void run();
  /// Makes run() return at once. From any thread.
  void stop();
  /// Runs `task` inside run(). From any thread.
  void post(Task task);
  void call_at(TimePoint when, Task task);

 private:
  friend class WsClient;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What a client is told, inside ClientLoop::run().
class ClientListener {
 public:
  virtual ~ClientListener() = default;
  virtual void on_open() = 0;
  virtual void on_message(std::string_view message) = 0;
  /// The last message was taken by the connection: the next may be sent.
  virtual void on_sent() = 0;
  /// Once, after everything else.
  virtual void on_end(const ClientEnd& end) = 0;
};

/// A WebSocket client. At most one message is on its way, so it holds no queue: a server that reads slowly
/// holds its listener back.
class WsClient {
 public:
  /// `api_key`, when not empty, is sent as "Authorization: Bearer ...". Loop and listener outlive the client.
  WsClient(ClientLoop& loop, ClientUrl url, std::string api_key, ClientListener& listener);
  /// Drops the connection; the listener hears nothing more.
  ~WsClient();
  WsClient(const WsClient&) = delete;
  WsClient& operator=(const WsClient&) = delete;

  void connect();
  /// True between on_open and on_end while no message is on its way.
  [[nodiscard]] bool can_send() const;
  // Each takes a message; can_send() must hold.
  void send_binary(std::string bytes);
  void send_text(std::string text);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tutti
