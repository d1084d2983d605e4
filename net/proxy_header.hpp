#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

/// The header that a proxy puts before a connection's bytes to say whose they are: the PROXY protocol of
/// HAProxy, versions 1 and 2. Reads exactly its bytes, so that what follows stays in the socket.
class ProxyHeaderReader {
 public:
  enum class State { more, done, bad };
  /// No more is wanted at a time.
  static constexpr size_t most_wanted = 4096 + 16;

  /// How many bytes to read next.
  [[nodiscard]] size_t wanted() const { return wanted_; }
  /// Takes the bytes that were read; wanted() of them at most, and not none.
  State take(std::string_view bytes);

  /// Who is behind the proxy; nothing when the proxy speaks for itself, as for a health check. Known once
  /// done.
  [[nodiscard]] const std::optional<boost::asio::ip::address>& client() const { return client_; }

 private:
  State more(size_t bytes);
  State read_text();
  State read_binary();
  State read_addresses();

  // "PROXY UNKNOWN\r\n", the shortest there is.
  static constexpr size_t shortest = 15;

  std::string header_;
  size_t wanted_ = shortest;
  std::optional<boost::asio::ip::address> client_;
};

}  // namespace tutti
