#pragma once

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "actors/ports.hpp"
#include "net/connection.hpp"
#include "net/session_slot.hpp"
#include "net/transport.hpp"
#include "net/visit.hpp"

namespace tutti {

/// What a client that was let in asks for.
struct UpgradeRequest {
  boost::beast::http::request<boost::beast::http::empty_body> request;
  std::variant<SessionRequest, std::unique_ptr<SubscriptionPlace>> serves;
  std::string subprotocol;  ///< of the answer; empty = none
  proto::Headers headers;   ///< added to it
  Visit visit;
  std::string address;  ///< of the client, for the log
};

/// Answers the handshake on a socket whose upgrade request has been read, then serves a stream on it, or the
/// events of one. A subscriber has no slot: there is a cap of their own.
void start_ws_session(ConnectionTicket ticket, std::optional<SessionSlot> slot, Transport transport,
                      UpgradeRequest upgrade);

}  // namespace tutti
