#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "config/result.hpp"

namespace tutti {

/// Where a client connects and what it asks for.
struct ClientUrl {
  std::string host;     ///< a name or an address, without brackets
  std::string port;     ///< a number
  std::string target;   ///< path and query, percent-encoded as they came
  bool secure = false;  ///< wss: WebSocket over TLS

  /// "127.0.0.1:8080" or "[::1]:8080", as messages and the Host header write it.
  [[nodiscard]] std::string authority() const;
};

/// Reads ws://HOST[:PORT][/PATH][?QUERY], or the same with wss; without a port it is 80, or 443. Fails with
/// "bad_url".
[[nodiscard]] Result<ClientUrl> parse_client_url(std::string_view url);

/// Completes the target: path /v1/stream where there is none, and each parameter the query does not name.
/// Names and values consist of letters, digits, `_`, `-` and `.`. Fails with "bad_parameter" when the query
/// cannot be decoded.
[[nodiscard]] Result<ClientUrl> with_defaults(
    ClientUrl url, std::initializer_list<std::pair<std::string_view, std::string>> parameters);

}  // namespace tutti
