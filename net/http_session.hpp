#pragma once

#include <boost/asio/ip/tcp.hpp>

#include "net/connection.hpp"

namespace tutti {

/// Serves HTTP on a freshly accepted socket, and hands it to a WebSocket session when the client asks for
/// one. The socket's executor is the connection's strand.
void start_http_session(ConnectionTicket ticket, boost::asio::ip::tcp::socket socket);

}  // namespace tutti
