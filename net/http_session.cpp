#include "net/http_session.hpp"

#include <boost/asio/post.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket/rfc6455.hpp>

#include <array>
#include <optional>

#include "net/hub.hpp"
#include "net/routes.hpp"
#include "net/ws_session.hpp"

namespace tutti {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using beast::error_code;

namespace {

// What is read and thrown away after the last response, so that closing with unread input does not reset the
// connection under the response.
constexpr size_t max_drained_bytes = 256U << 10U;
constexpr auto drain_timeout = std::chrono::seconds(2);
// Room behind a header for what arrives in the same read.
constexpr size_t read_ahead_bytes = 64U << 10U;

bool is_http_error(const error_code& error) {
  return error.category() == make_error_code(http::error::end_of_stream).category();
}

class HttpSession final : public Connection, public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(ConnectionTicket ticket, tcp::socket socket)
      : ticket_(std::move(ticket)),
        hub_(ticket_.hub()),
        stream_(std::move(socket)),
        buffer_(hub_.options.max_header_bytes + read_ahead_bytes) {}

  void run() {
    ticket_.assign(weak_from_this());
    asio::post(stream_.get_executor(), [self = shared_from_this()] { self->read(); });
  }

  void shut_down() override {
    asio::post(stream_.get_executor(), [self = shared_from_this()] {
      self->shutting_down_ = true;
      if (!self->upgraded_) self->stream_.close();
    });
  }

 private:
  void read() {
    if (shutting_down_) return;
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(hub_.options.max_header_bytes));
    stream_.expires_after(hub_.options.handshake_timeout);
    // The header only: no request served here has a body.
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](const error_code& error, size_t) { self->on_read(error); });
  }

  void on_read(const error_code& error) {
    if (shutting_down_) return;
    if (error) return on_read_error(error);
    ++hub_.stats.http_requests;
    const auto& request = parser_->get();
    const Target target = split_target({request.target().data(), request.target().size()});
    if (target.path == stream_path && beast::websocket::is_upgrade(request)) return upgrade(target.query);
    const std::string_view method(request.method_string().data(), request.method_string().size());
    write(answer(method, target.path, hub_.status), parser_->keep_alive() && parser_->is_done());
  }

  void on_read_error(const error_code& error) {
    if (error == http::error::end_of_stream) return stream_.close();
    if (is_http_error(error) || error == beast::error::timeout) ++hub_.stats.bad_http_requests;
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      return write(
          error_reply(431, "header_too_long", "the request's header is longer than this server reads"),
          false);
    }
    if (is_http_error(error))
      return write(error_reply(400, "bad_request", "this is not an HTTP/1.1 request"), false);
    stream_.close();
  }

  void upgrade(std::string_view query) {
    if (buffer_.size() > 0) {
      return write(
          error_reply(400, "bad_request", "data was sent before the WebSocket handshake was answered"),
          false);
    }
    auto slot = SessionSlot::take(hub_.stats, hub_.options.max_sessions);
    if (!slot) {
      ++hub_.stats.refused_sessions;
      auto reply = error_reply(503, "full", "the server has all the sessions it allows; try again later");
      reply.headers = {{"Retry-After", "5"}};
      return write(std::move(reply), parser_->keep_alive());
    }
    upgraded_ = true;
    std::string owned_query(query);
    start_ws_session(std::move(ticket_), std::move(*slot), std::move(stream_), parser_->release(),
                     std::move(owned_query));
  }

  void write(HttpReply reply, bool keep_alive) {
    response_ = {};
    response_.version(11);
    response_.result(reply.status);
    response_.set(http::field::server, hub_.options.server_name);
    response_.set(http::field::content_type, reply.content_type);
    response_.keep_alive(keep_alive);
    for (const auto& [name, value] : reply.headers) response_.insert(name, value);
    response_.body() = std::move(reply.body);
    response_.prepare_payload();
    if (parser_->is_header_done() && parser_->get().method() == http::verb::head) response_.body().clear();
    stream_.expires_after(hub_.options.handshake_timeout);
    http::async_write(stream_, response_,
                      [self = shared_from_this(), keep_alive](const error_code& error, size_t) {
                        self->on_write(error, keep_alive);
                      });
  }

  void on_write(const error_code& error, bool keep_alive) {
    if (error || shutting_down_) return stream_.close();
    if (keep_alive) return read();
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(drain_timeout);
    drain(0);
  }

  void drain(size_t drained) {
    stream_.async_read_some(asio::buffer(drain_buffer_),
                            [self = shared_from_this(), drained](const error_code& error, size_t bytes) {
                              if (error || drained + bytes > max_drained_bytes) return self->stream_.close();
                              self->drain(drained + bytes);
                            });
  }

  ConnectionTicket ticket_;
  Hub& hub_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  http::response<http::string_body> response_;
  std::array<char, 4096> drain_buffer_{};
  bool shutting_down_ = false;
  bool upgraded_ = false;  // the socket is another's
};

}  // namespace

void start_http_session(ConnectionTicket ticket, tcp::socket socket) {
  std::make_shared<HttpSession>(std::move(ticket), std::move(socket))->run();
}

}  // namespace tutti
