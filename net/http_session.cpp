#include "net/http_session.hpp"

#include <boost/asio/post.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket/rfc6455.hpp>

#include <array>
#include <chrono>
#include <optional>
#include <variant>

#include "net/hub.hpp"
#include "net/pages.hpp"
#include "net/routes.hpp"
#include "net/session_id.hpp"
#include "net/subscription_exchange.hpp"
#include "net/transport.hpp"
#include "net/upload_exchange.hpp"
#include "net/ws_session.hpp"
#include "proto/dialects.hpp"
#include "proto/subscription.hpp"

namespace tutti {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using beast::error_code;

namespace {

// What is read and thrown away after the last response, so that closing with unread input does not reset the
// connection under the response.
constexpr size_t max_drained_bytes = 128U << 20U;
constexpr auto drain_timeout = std::chrono::seconds(2);
// Room behind a header for what arrives in the same read.
constexpr size_t read_ahead_bytes = 64U << 10U;
// The first byte of TLS, and of no HTTP method: RFC 8446, section 5.1.
constexpr char tls_handshake_record = 0x16;

bool is_http_error(const error_code& error) {
  return error.category() == make_error_code(http::error::end_of_stream).category();
}

std::string_view header(const http::fields& fields, http::field name) {
  const auto value = fields[name];
  return {value.data(), value.size()};
}

CredentialHeaders credential_headers(const http::fields& fields) {
  const auto x_api_key = fields["X-API-KEY"];
  return {.authorization = header(fields, http::field::authorization),
          .x_api_key = {x_api_key.data(), x_api_key.size()},
          .websocket_protocol = header(fields, http::field::sec_websocket_protocol)};
}

proto::Handshake handshake_of(const http::fields& fields, const Target& target) {
  proto::Handshake handshake{.session = make_session_id(),
                             .path = std::string(target.path),
                             .query = std::string(target.query),
                             .headers = {},
                             .time = std::chrono::system_clock::now()};
  for (const auto& field : fields) {
    handshake.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  return handshake;
}

class HttpSession final : public Connection, public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(ConnectionTicket ticket, tcp::socket socket, const proto::DialectEntry* root_dialect)
      : ticket_(std::move(ticket)),
        hub_(ticket_.hub()),
        root_dialect_(root_dialect),
        stream_(std::move(socket)),
        buffer_(hub_.options.max_header_bytes + read_ahead_bytes) {}

  void run() {
    ticket_.assign(weak_from_this());
    asio::post(stream_.get_executor(),
               [self = shared_from_this()] { self->hub_.tls ? self->read_first_byte() : self->read(); });
  }

  void shut_down() override {
    asio::post(stream_.get_executor(), [self = shared_from_this()] {
      self->shutting_down_ = true;
      if (const auto subscription = self->subscription_.lock()) return subscription->shut_down();
      if (!self->upgraded_) self->stream_.close();
    });
  }

 private:
  /// Tells TLS from a client that does not know that it is spoken here.
  void read_first_byte() {
    if (shutting_down_) return;
    stream_.tcp().expires_after(hub_.options.handshake_timeout);
    stream_.async_read_some(asio::buffer(&first_byte_, 1),
                            [self = shared_from_this()](const error_code& error, size_t) {
                              error ? self->stream_.close() : self->on_first_byte();
                            });
  }

  void on_first_byte() {
    if (first_byte_ != tls_handshake_record) {
      ++hub_.stats.failed_handshakes;
      parser_.emplace();
      return write(error_reply(400, "tls_required", "this port speaks TLS: use https:// or wss://"), false);
    }
    stream_.async_handshake(*hub_.tls, first_byte_, [self = shared_from_this()](const error_code& error) {
      self->on_handshake(error);
    });
  }

  void on_handshake(const error_code& error) {
    if (!error) return read();
    ++hub_.stats.failed_handshakes;
    stream_.close();
  }
  using Exchange = UploadExchange;
  using PlaceAnswer = Result<std::unique_ptr<SubscriptionPlace>>;

  void read() {
    if (shutting_down_) return;
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(hub_.options.max_header_bytes));
    stream_.tcp().expires_after(hub_.options.handshake_timeout);
    // The header only. What of a body is read, and how much, is up to what serves the request.
    parser_->body_limit(boost::none);
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
    const std::string_view method(request.method_string().data(), request.method_string().size());
    const bool is_upgrade = beast::websocket::is_upgrade(request);
    if (const WebFile* const page = is_upgrade ? nullptr : find_page(target.path)) {
      return write(answer_page(*page, method, header(request, http::field::if_none_match)),
                   parser_->keep_alive() && parser_->is_done());
    }
    auto client =
        is_public(target.path) ? std::string() : hub_.options.credentials.admit(credential_headers(request));
    if (!client) return refuse_client(client.error());
    if (auto stream = proto::watched_stream(target.path)) {
      return subscribe(std::move(*stream), std::move(*client));
    }
    const proto::DialectEntry* const dialect = dialect_at(target.path);
    if (dialect != nullptr && is_upgrade) return upgrade(*dialect, target, std::move(*client));
    if (target.path == transcriptions_path && request.method() == http::verb::post) return upload();
    write(answer(method, target.path, dialect, hub_.status), may_keep_alive());
  }

  [[nodiscard]] const proto::DialectEntry* dialect_at(std::string_view path) const {
    return root_dialect_ != nullptr && path == "/" ? root_dialect_ : proto::find_dialect_at(path);
  }

  void refuse_client(const Error& error) {
    ++hub_.stats.unauthorized_requests;
    auto reply = error_reply(401, error.code, error.message);
    reply.headers = {{"WWW-Authenticate", "Bearer"}};
    write(std::move(reply), may_keep_alive());
  }

  void on_read_error(const error_code& error) {
    if (error == http::error::end_of_stream) return stream_.close();
    if (is_tls_on_plain_port()) {
      ++hub_.stats.tls_on_plain_port;
      return stream_.close();
    }
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

  /// Whether what was read, and is no HTTP, begins as TLS does.
  [[nodiscard]] bool is_tls_on_plain_port() const {
    return !hub_.tls && buffer_.size() > 0 &&
           *static_cast<const char*>(buffer_.data().data()) == tls_handshake_record;
  }

  void upgrade(const proto::DialectEntry& dialect, const Target& target, std::string client) {
    if (buffer_.size() > 0) return refuse_early_data();
    auto slot = SessionSlot::take(hub_.stats, hub_.options.max_sessions);
    if (!slot) {
      ++hub_.stats.refused_sessions;
      auto reply = error_reply(503, "full", "the server has all the sessions it allows; try again later");
      reply.headers = {{"Retry-After", "5"}};
      return write(std::move(reply), parser_->keep_alive());
    }
    const proto::Handshake handshake = handshake_of(parser_->get(), target);
    auto acceptance = dialect.accept(handshake);
    if (auto* const refused = std::get_if<proto::Refused>(&acceptance)) {
      slot.reset();  // before the client knows: it may try again at once
      return write(
          {refused->status, "application/json", std::move(refused->body), std::move(refused->headers)},
          parser_->keep_alive());
    }
    auto& accepted = std::get<proto::Accepted>(acceptance);
    if (accepted.subprotocol.empty()) {
      accepted.subprotocol = key_subprotocol(handshake.header("Sec-WebSocket-Protocol"));
    }
    upgraded_ = true;
    start_ws_session(std::move(ticket_), std::move(slot), std::move(stream_),
                     {.request = parser_->release(),
                      .serves = SessionRequest{.session = handshake.session,
                                               .dialect_name = dialect.name,
                                               .dialect = std::move(accepted.dialect)},
                      .subprotocol = std::move(accepted.subprotocol),
                      .headers = std::move(accepted.headers),
                      .client = std::move(client)});
  }

  void refuse_early_data() {
    write(error_reply(400, "bad_request", "data was sent before the WebSocket handshake was answered"),
          false);
  }

  /// A WebSocket that is asked for, or else an event stream.
  void subscribe(Result<std::string> stream, std::string client) {
    const auto& request = parser_->get();
    if (!stream)
      return write(error_reply(400, stream.error().code, stream.error().message), may_keep_alive());
    if (request.method() != http::verb::get) {
      auto reply = error_reply(405, "method_not_allowed", "the events of a stream answer GET");
      reply.headers = {{"Allow", "GET"}};
      return write(std::move(reply), may_keep_alive());
    }
    const bool upgrades = beast::websocket::is_upgrade(request);
    if (upgrades && buffer_.size() > 0) return refuse_early_data();
    const auto after = request["Last-Event-ID"];
    SubscriptionRequest wanted{
        .stream = std::move(*stream),
        .client = std::move(client),
        .form = upgrades ? proto::SubscriberForm::websocket : proto::SubscriberForm::event_stream,
        .after = proto::parse_event_place({after.data(), after.size()})};
    stream_.tcp().expires_never();
    hub_.subscriptions.take_place(
        std::move(wanted), [self = shared_from_this(), upgrades](PlaceAnswer place) {
          asio::post(self->stream_.get_executor(), [self, upgrades, place = std::move(place)]() mutable {
            self->on_place(std::move(place), upgrades);
          });
        });
  }

  void on_place(PlaceAnswer place, bool upgrades) {
    if (shutting_down_) return;
    if (!place) return refuse_subscriber(place.error());
    upgrades ? serve_websocket(std::move(*place)) : serve_events(std::move(*place));
  }

  void refuse_subscriber(const Error& error) {
    // What makes browsers stop asking.
    if (error.code == "nothing_new") return write({204, {}, {}, {}}, may_keep_alive());
    const bool is_full = error.code == "too_many_subscribers";
    auto reply = error_reply(is_full ? 503 : 404, error.code, error.message);
    if (is_full) reply.headers = {{"Retry-After", "5"}};
    write(std::move(reply), may_keep_alive());
  }

  void serve_websocket(std::unique_ptr<SubscriptionPlace> place) {
    const auto offered = header(parser_->get(), http::field::sec_websocket_protocol);
    std::string subprotocol(key_subprotocol(offered));
    upgraded_ = true;
    start_ws_session(std::move(ticket_), std::nullopt, std::move(stream_),
                     {.request = parser_->release(),
                      .serves = std::move(place),
                      .subprotocol = std::move(subprotocol),
                      .headers = {},
                      .client = {}});
  }

  void serve_events(std::unique_ptr<SubscriptionPlace> place) {
    const auto subscription = std::make_shared<SubscriptionExchange>(
        shared_from_this(), ticket_.shared_hub(), stream_, buffer_, std::move(place),
        StreamedReply(parser_->get().version() < 11, may_keep_alive()), [this](bool keep_alive) {
          subscription_.reset();
          if (shutting_down_ || !keep_alive) return stream_.close();
          read();
        });
    subscription_ = subscription;
    subscription->start();
  }

  [[nodiscard]] bool may_keep_alive() const { return parser_->keep_alive() && parser_->is_done(); }

  void upload() {
    std::make_shared<Exchange>(shared_from_this(), hub_, stream_, buffer_, std::move(*parser_),
                               [this](Exchange::Outcome outcome) { on_uploaded(std::move(outcome)); })
        ->start();
  }

  void on_uploaded(Exchange::Outcome outcome) {
    if (outcome.broken || shutting_down_) return stream_.close();
    if (outcome.refusal) return write(std::move(*outcome.refusal), outcome.keep_alive);
    finish_reply(outcome.keep_alive);
  }

  void write(HttpReply reply, bool keep_alive) {
    response_ = {};
    response_.version(11);
    response_.result(reply.status);
    response_.set(http::field::server, hub_.options.server_name);
    if (!reply.content_type.empty()) response_.set(http::field::content_type, reply.content_type);
    response_.keep_alive(keep_alive);
    for (const auto& [name, value] : reply.headers) response_.insert(name, value);
    response_.body() = std::move(reply.body);
    response_.prepare_payload();
    // It would be the length that the page has (RFC 9110, section 8.6).
    if (response_.result() == http::status::not_modified) response_.erase(http::field::content_length);
    if (parser_->is_header_done() && parser_->get().method() == http::verb::head) response_.body().clear();
    stream_.tcp().expires_after(hub_.options.handshake_timeout);
    http::async_write(stream_, response_,
                      [self = shared_from_this(), keep_alive](const error_code& error, size_t) {
                        self->on_write(error, keep_alive);
                      });
  }

  void on_write(const error_code& error, bool keep_alive) {
    if (error || shutting_down_) return stream_.close();
    finish_reply(keep_alive);
  }

  void finish_reply(bool keep_alive) {
    if (keep_alive) return read();
    stream_.tcp().expires_after(drain_timeout);
    stream_.async_shutdown([self = shared_from_this()](const error_code&) { self->drain(0); });
  }

  void drain(size_t drained) {
    if (shutting_down_) return;
    stream_.tcp().async_read_some(asio::buffer(drain_buffer_), [self = shared_from_this(), drained](
                                                                   const error_code& error, size_t bytes) {
      if (error || drained + bytes > max_drained_bytes) return self->stream_.close();
      self->drain(drained + bytes);
    });
  }

  ConnectionTicket ticket_;
  Hub& hub_;
  const proto::DialectEntry* root_dialect_;
  Transport stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  http::response<http::string_body> response_;
  std::array<char, 4096> drain_buffer_{};
  char first_byte_ = 0;
  std::weak_ptr<SubscriptionExchange> subscription_;
  bool shutting_down_ = false;
  bool upgraded_ = false;  // the socket is another's
};

}  // namespace

void start_http_session(ConnectionTicket ticket, tcp::socket socket,
                        const proto::DialectEntry* root_dialect) {
  std::make_shared<HttpSession>(std::move(ticket), std::move(socket), root_dialect)->run();
}

}  // namespace tutti
