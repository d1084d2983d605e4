#pragma once

#include <boost/asio/ip/tcp.hpp>

#include "net/connection.hpp"
#include "net/session_slot.hpp"

namespace tutti {

/// Serves a stream on a socket on which AudioSocket is spoken: proto/audiosocket.hpp. It is only read from,
/// and ends when either side closes it.
void start_audiosocket_session(ConnectionTicket ticket, SessionSlot slot,
                               boost::asio::ip::tcp::socket socket);

}  // namespace tutti
