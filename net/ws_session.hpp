#pragma once

#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <string>

#include "net/connection.hpp"
#include "net/session_slot.hpp"

namespace tutti {

using UpgradeRequest = boost::beast::http::request<boost::beast::http::empty_body>;

/// Answers the handshake on a socket whose upgrade request has been read, then serves a stream on it.
void start_ws_session(ConnectionTicket ticket, SessionSlot slot, boost::beast::tcp_stream stream,
                      UpgradeRequest request, std::string query);

}  // namespace tutti
