#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/ports.hpp"
#include "net/address_range.hpp"
#include "net/credentials.hpp"
#include "net/stats.hpp"
#include "net/tls.hpp"
#include "proto/dialects.hpp"

namespace tutti {

/// A port of its own for the clients of a dialect that expect it at "/". All else is served there too.
struct DialectPort {
  uint16_t port = 0;  ///< on the address of NetOptions::bind; 0 takes a free one
  const proto::DialectEntry* dialect = nullptr;
};

/// A socket that is listened on.
struct ListenerAddress {
  std::string address;            ///< "ADDRESS:PORT"
  std::string_view root_dialect;  ///< spoken at "/"; empty = none
  bool is_audiosocket = false;    ///< that, and nothing else
  bool is_admin = false;          ///< for who runs the server
};

struct NetOptions {
  /// ADDRESS:PORT, [ADDRESS]:PORT; port 0: a free one. Nothing where there are no clients.
  std::optional<std::string> bind = "127.0.0.1:8080";
  std::vector<DialectPort> dialect_ports;
  std::string audiosocket;  ///< like bind, for Asterisk's AudioSocket, which has no keys; empty = not at all
  /// Like bind, for who runs the server: measurements, the monitor, what AdminPort does. They are then not
  /// served elsewhere. Empty = served with all else, without AdminPort.
  std::string admin_bind;
  /// Who may say for whom a request or a connection is: X-Forwarded-For is read, and not limited by address.
  std::vector<AddressRange> trusted_proxies;
  bool proxy_protocol = false;               ///< their connections begin with a PROXY header
  std::vector<std::string> allowed_origins;  ///< whose pages may use the server; "*" = all
  int io_threads = 1;
  int max_sessions = 4096;                ///< WebSocket sessions; more are answered 503
  int max_connections_per_address = 256;  ///< streams behind trusted proxies; not of this machine
  int max_subscribers = 1024;             ///< there may be, at the SubscriptionPort
  size_t max_message_bytes = 1U << 20U;   ///< a longer WebSocket message ends its session
  size_t max_upload_bytes = 64U << 20U;   ///< of a file to transcribe, with its form
  size_t max_queued_events = 256;         ///< results waiting for a slow reader
  size_t max_header_bytes = 16U << 10U;   ///< request line and headers
  std::chrono::milliseconds handshake_timeout{10'000};  ///< for a request's header, and between requests
  std::chrono::milliseconds idle_timeout{60'000};       ///< without audio or text while the server is reading
  std::chrono::milliseconds max_stream{0};         ///< a session that is open for so long ends; 0 = never
  std::chrono::milliseconds close_timeout{5'000};  ///< for each step of a WebSocket close
  std::chrono::milliseconds ping_interval{10'000};
  std::string server_name = "tutti";  ///< the Server header
  Credentials credentials;            ///< who is let in, /healthz and /readyz apart
  bool insecure = false;              ///< everybody may be, on an address others can reach
  std::optional<TlsIdentity> tls;     ///< https:// and wss:// instead of http:// and ws://
};

/// What can be known of a server that is not started. Throws SetupError when options.bind or
/// options.audiosocket is not an address, is not one of this machine, or can be reached by others while
/// everybody is let in.
void check_listener(const NetOptions& options);

/// HTTP and WebSocket on one port, and on those that dialects have of their own, and AudioSocket on another:
/// docs/protocol.md and docs/dialects.md say what is served.
///
/// One strand a connection, no locks. Everything a client can make grow has a cap: connections, header,
/// message, queued events, time. Calls of the public functions come from one thread; ports are called from
/// the io threads.
class NetServer final {
 public:
  /// Binds, and listens from start() on. Throws SetupError as check_listener, and when a port is taken.
  /// The ports outlive the server.
  NetServer(const NetOptions& options, GatewayPort& gateway, const StatusPort& status, UploadPort& uploads,
            SubscriptionPort& subscriptions);
  /// Calls stop().
  ~NetServer();
  NetServer(const NetServer&) = delete;
  NetServer& operator=(const NetServer&) = delete;

  /// The bound "ADDRESS:PORT", with the port that was chosen for port 0.
  [[nodiscard]] std::string address() const;
  /// All that are bound; the first is that of address().
  [[nodiscard]] std::vector<ListenerAddress> listeners() const;

  void start();
  /// From now on: who is let in, of every request; all else, of connections that are accepted. Open sessions
  /// go on as they began. Where it listens, and its threads, are those of the start, whatever `options` says.
  /// Throws SetupError, and changes nothing, when that was with TLS and these are without, or the reverse.
  /// From any thread.
  void use(const NetOptions& options);
  /// Who does what is asked for at the admin port, before start(). Outlives the server. Without one such
  /// requests are answered 404.
  void use_admin(AdminPort& admin);
  /// Closes every connection (code 1001) and waits for the io threads, at most about one close_timeout.
  /// A SessionSink that outlives this is inert.
  void stop();

  /// Counters, readable from any thread.
  [[nodiscard]] const NetStats& stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
