#pragma once

#include <boost/asio/ip/tcp.hpp>

#include "net/connection.hpp"
#include "proto/dialects.hpp"

namespace tutti {

/// Serves HTTP on a freshly accepted socket, and hands it to a WebSocket session when the client asks for
/// one. The socket's executor is the connection's strand. `root_dialect` is spoken at "/", unless it is null.
void start_http_session(ConnectionTicket ticket, boost::asio::ip::tcp::socket socket,
                        const proto::DialectEntry* root_dialect);

}  // namespace tutti
