#pragma once

#include <atomic>
#include <cstdint>

namespace tutti {

/// What the network layer counts. Totals only grow; `open_*` are current.
struct NetStats {
  std::atomic<int64_t> open_connections{0};
  std::atomic<int64_t> open_sessions{0};  ///< WebSocket
  std::atomic<int64_t> accepted_connections{0};
  std::atomic<int64_t> failed_accepts{0};     ///< out of file descriptors, for one
  std::atomic<int64_t> http_requests{0};      ///< upgrades included
  std::atomic<int64_t> bad_http_requests{0};  ///< not HTTP, too long or too slow
  std::atomic<int64_t> unauthorized_requests{0};
  std::atomic<int64_t> forbidden_requests{0};  ///< of clients whose keys do not allow them
  std::atomic<int64_t> limited_requests{0};    ///< beyond what a client or an address may have
  std::atomic<int64_t> refused_addresses{0};   ///< connections beyond max_connections_per_address
  std::atomic<int64_t> refused_origins{0};     ///< requests of pages that may not use the server
  std::atomic<int64_t> bad_proxy_headers{0};   ///< connections of proxies that begin without one
  std::atomic<int64_t> failed_handshakes{0};   ///< of TLS, plain HTTP on a TLS port among them
  std::atomic<int64_t> tls_on_plain_port{0};
  std::atomic<int64_t> sessions{0};
  std::atomic<int64_t> refused_sessions{0};  ///< over max_sessions, or for want of a place
  std::atomic<int64_t> audio_bytes{0};
  std::atomic<int64_t> text_messages{0};
  std::atomic<int64_t> events_sent{0};
  std::atomic<int64_t> superseded_partials{0};  ///< dropped for a newer one or for a final
  std::atomic<int64_t> read_stalls{0};          ///< times a session stopped reading for want of credit
  std::atomic<int64_t> slow_readers{0};         ///< closed with queued events at the cap
  std::atomic<int64_t> idle_sessions{0};        ///< closed by idle_timeout
  std::atomic<int64_t> ended_sessions{0};       ///< closed by max_stream, or by their client's audio limit
  std::atomic<int64_t> oversized_messages{0};   ///< closed by max_message_bytes
  std::atomic<int64_t> upload_bytes{0};         ///< of bodies with files to transcribe
  std::atomic<int64_t> refused_uploads{0};      ///< over max_upload_bytes, or for want of a place
  std::atomic<int64_t> subscriptions{0};        ///< to the events of a stream
  std::atomic<int64_t> slow_subscribers{0};     ///< closed as slow_readers
  std::atomic<int64_t> vanished_peers{0};       ///< gone without a close frame
};

}  // namespace tutti
