#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>

#include "net/connection.hpp"
#include "net/routes.hpp"
#include "net/tls_context.hpp"
#include "proto/dialects.hpp"

namespace tutti {

/// What is served on a port.
struct HttpPort {
  const proto::DialectEntry* root_dialect = nullptr;  ///< spoken at "/"; null = none
  Serves serves = Serves::everything;
};

/// Serves HTTP on a freshly accepted socket, and hands it to a WebSocket session when the client asks for
/// one. The socket's executor is the connection's strand. TLS is spoken with `tls`, unless it is null.
void start_http_session(ConnectionTicket ticket, boost::asio::ip::tcp::socket socket,
                        std::shared_ptr<TlsContext> tls, HttpPort port);

}  // namespace tutti
