#pragma once

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <string>

#include "actors/ports.hpp"
#include "net/connection.hpp"
#include "net/session_slot.hpp"
#include "net/transport.hpp"

namespace tutti {

/// What a client that was let in asks for.
struct UpgradeRequest {
  boost::beast::http::request<boost::beast::http::empty_body> request;
  SessionRequest session;
  std::string subprotocol;  ///< of the answer; empty = none
  proto::Headers headers;   ///< added to it
  std::string client;       ///< the name of its API key
};

/// Answers the handshake on a socket whose upgrade request has been read, then serves a stream on it.
void start_ws_session(ConnectionTicket ticket, SessionSlot slot, Transport transport, UpgradeRequest upgrade);

}  // namespace tutti
