#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <boost/beast/websocket/teardown.hpp>

#include <string>
#include <utility>
#include <variant>

#include "net/tls_context.hpp"

namespace tutti {

/// The bytes of one connection, encrypted or not: a stream for Beast that is one type for both, so that what
/// is spoken on it is compiled once.
class Transport {
 public:
  using executor_type = boost::beast::tcp_stream::executor_type;

  explicit Transport(boost::asio::ip::tcp::socket socket)
      : stream_(std::in_place_type<Plain>, std::move(socket)) {}

  [[nodiscard]] bool is_secure() const { return std::holds_alternative<Secure>(stream_); }
  /// The socket and its deadlines.
  [[nodiscard]] boost::beast::tcp_stream& tcp() {
    Secure* const secure = std::get_if<Secure>(&stream_);
    return secure != nullptr ? secure->next_layer() : std::get<Plain>(stream_);
  }
  [[nodiscard]] executor_type get_executor() { return tcp().get_executor(); }
  void close() { tcp().close(); }

  /// Begins TLS as the server, with the byte that was already read of it. Afterwards everything is encrypted.
  template <class Handler>
  void async_handshake(TlsContext& context, const char& first_byte, Handler&& handler) {
    Plain plain = std::move(std::get<Plain>(stream_));
    stream_.emplace<Secure>(std::move(plain), context)
        .async_handshake(
            boost::asio::ssl::stream_base::server, boost::asio::const_buffer(&first_byte, 1),
            // Optional: Beast checks the handler as if it were that of a handshake without a buffer.
            [handler = std::forward<Handler>(handler)](const boost::system::error_code& error,
                                                       size_t /*used*/ = 1) mutable { handler(error); });
  }

  /// Begins TLS as a client of `host`, a name or an address, which the certificate must be for. Afterwards
  /// everything is encrypted.
  template <class Handler>
  void async_client_handshake(TlsContext& context, const std::string& host, Handler&& handler) {
    Plain plain = std::move(std::get<Plain>(stream_));
    Secure& secure = stream_.emplace<Secure>(std::move(plain), context);
    boost::system::error_code not_an_address;
    boost::asio::ip::make_address(host, not_an_address);
    if (not_an_address) SSL_set_tlsext_host_name(secure.native_handle(), host.c_str());
    secure.set_verify_callback(boost::asio::ssl::host_name_verification(host));
    secure.async_handshake(boost::asio::ssl::stream_base::client, std::forward<Handler>(handler));
  }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    visit([&](auto& stream) { stream.async_read_some(buffers, std::forward<Handler>(handler)); });
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    visit([&](auto& stream) { stream.async_write_some(buffers, std::forward<Handler>(handler)); });
  }

  /// Says that nothing more will be sent.
  template <class Handler>
  void async_shutdown(Handler&& handler) {
    if (Secure* const secure = std::get_if<Secure>(&stream_)) {
      return secure->async_shutdown(std::forward<Handler>(handler));
    }
    boost::system::error_code result;
    tcp().socket().shutdown(boost::asio::socket_base::shutdown_send, result);
    boost::asio::post(get_executor(),
                      [handler = std::forward<Handler>(handler), result]() mutable { handler(result); });
  }

  /// The end of a WebSocket.
  template <class Handler>
  void async_teardown(boost::beast::role_type role, Handler&& handler) {
    if (Secure* const secure = std::get_if<Secure>(&stream_)) {
      return secure->async_shutdown(std::forward<Handler>(handler));
    }
    boost::beast::websocket::async_teardown(role, tcp().socket(), std::forward<Handler>(handler));
  }

  template <class Handler>
  friend void async_teardown(boost::beast::role_type role, Transport& transport, Handler&& handler) {
    transport.async_teardown(role, std::forward<Handler>(handler));
  }

  /// How Beast closes it when a deadline of its own has passed.
  friend void beast_close_socket(Transport& transport) { transport.close(); }

 private:
  using Plain = boost::beast::tcp_stream;
  using Secure = boost::beast::ssl_stream<boost::beast::tcp_stream>;

  template <class Action>
  void visit(Action action) {
    if (Secure* const secure = std::get_if<Secure>(&stream_)) {
      action(*secure);
    } else {
      action(std::get<Plain>(stream_));
    }
  }

  std::variant<Plain, Secure> stream_;
};

}  // namespace tutti
