#include "app/client_message.hpp"

#include <fmt/format.h>

namespace tutti {

std::string describe(const ClientEnd& end, const ClientUrl& url) {
  const std::string detail = end.message.empty() ? std::string() : ": " + end.message;
  switch (end.kind) {
    case ClientEnd::Kind::unreachable:
      return fmt::format("cannot connect to {}{}; is the server running?", url.authority(), detail);
    case ClientEnd::Kind::untrusted:
      return fmt::format(
          "no TLS with {}{}; is its certificate for this name, and does the system or --ca-file trust it?",
          url.authority(), detail);
    case ClientEnd::Kind::refused:
      return fmt::format("{} refused the connection with HTTP status {}{}", url.authority(), end.code,
                         detail);
    case ClientEnd::Kind::closed:
      return fmt::format("{} closed the connection before the end with code {}{}", url.authority(), end.code,
                         detail);
    case ClientEnd::Kind::lost:
      return fmt::format("the connection to {} was lost{}", url.authority(), detail);
  }
  return {};
}

}  // namespace tutti
