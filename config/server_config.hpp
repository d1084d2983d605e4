#pragma once

#include <string>
#include <vector>

#include "config/engine_config.hpp"

namespace tutti {

/// Everything `tutti serve` can be told.
struct ServerConfig {
  std::string role = "both";  ///< of a process of a cluster: "gateway", "engine"
  std::string bind = "127.0.0.1:8080";
  std::vector<std::string> dialect_at;       ///< "PORT=DIALECT": ports that dialects have of their own
  std::string audiosocket;                   ///< where Asterisk's AudioSocket is served; empty = nowhere
  std::string admin_bind;                    ///< what is for who runs the server; empty = with all else
  std::vector<std::string> trusted_proxies;  ///< ranges of those who may say for whom a request is
  bool proxy_protocol = false;               ///< their connections begin with a PROXY header
  std::vector<std::string> allowed_origins;  ///< whose pages may use the server beside its own
  std::string model;                         ///< checkpoint directory; empty = the bundled model
  EngineConfig engine;
  int credit_ms = 4000;             ///< audio a session may have unacknowledged before its socket is not read
  int max_message_bytes = 1 << 20;  ///< a longer WebSocket message ends its session
  int max_sessions = 4096;          ///< open connections
  int max_connections_per_address = 256;  ///< of streams where a trusted proxy is between
  int handshake_timeout_s = 10;           ///< for TLS, a request's header, and between requests
  int max_header_bytes = 16 << 10;        ///< of a request line and headers
  int max_stream_s = 43200;               ///< a session that is open for so long ends; 0 = never
  int idle_timeout_s = 60;                ///< without audio or keepalive
  int max_queued_events = 256;         ///< results waiting for a slow reader; partials are superseded first
  int grace_s = 10;                    ///< how long SIGTERM lets running streams go on
  int max_wait_ms = 0;                 ///< of a stream for a place; 0 = refused at once
  int max_waiting = 100;               ///< streams that wait
  int latency_target_ms = 500;         ///< of the 99th percentile of chunks; 0 = whatever it is
  int owner_timeout_s = 5;             ///< an owner that does not answer is lost
  int snapshot_ms = 5000;              ///< of audio between two snapshots of a stream; 0 = none
  int max_subscribers = 1024;          ///< readers of sessions that are not their clients
  int max_uploads = 4;                 ///< files being received or transcribed at a time
  int max_upload_bytes = 64 << 20;     ///< of a request's body
  int max_upload_seconds = 4 * 3600;   ///< of a file's audio
  std::string api_keys_file;           ///< who is let in; empty = everybody
  std::string jwt_keys_file;           ///< tokens are taken beside keys; empty = none
  std::string jwt_audience = "tutti";  ///< whom a token must be for
  std::string jwt_issuer;              ///< whose it must be; empty = anybody's with the key
  bool insecure = false;               ///< everybody may be, on an address others can reach
  std::string tls_certificate;         ///< PEM; with tls_key the server speaks TLS
  std::string tls_key;
  // Who is called with what sessions hear.
  std::string callback_url;                            ///< empty = nobody
  std::string callback_secret_file;                    ///< what messages are signed with
  std::string callback_sessions = "unread";            ///< whose client does not read results; or "all"
  std::vector<std::string> callback_private_networks;  ///< that may be called
  std::string callback_ca_file;                        ///< beside the system's authorities
  int callback_timeout_s = 10;                         ///< of one attempt
  int callback_attempts = 6;
  int callback_max_queued = 1000;
  // The other processes of a cluster.
  std::string cluster_bind;                  ///< where gateways find this process's owners; empty = nowhere
  bool cluster_bind_any = false;             ///< it may be an address that others reach too
  std::vector<std::string> cluster_engines;  ///< HOST:PORT of those whose owners this process uses
  std::string cluster_certificate;           ///< PEM, as are key and ca
  std::string cluster_key;
  std::string cluster_ca;
  std::string log_level = "info";   ///< trace, debug, info, warn, error
  std::string log_format = "text";  ///< or json
  std::string trace_dir;            ///< where timelines of sessions are written; empty = nowhere
};

}  // namespace tutti
