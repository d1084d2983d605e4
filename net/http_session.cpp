#include "net/http_session.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket/rfc6455.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "net/client_address.hpp"
#include "net/http_request.hpp"
#include "net/hub.hpp"
#include "net/origin.hpp"
#include "net/pages.hpp"
#include "net/proxy_header.hpp"
#include "net/routes.hpp"
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

class HttpSession final : public Connection, public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(ConnectionTicket ticket, tcp::socket socket, std::shared_ptr<TlsContext> tls, HttpPort port)
      : ticket_(std::move(ticket)),
        hub_(ticket_.hub()),
        options_(ticket_.options()),
        tls_(std::move(tls)),
        port_(port),
        stream_(std::move(socket)),
        buffer_(options_->max_header_bytes + read_ahead_bytes) {}

  void run() {
    ticket_.assign(weak_from_this());
    asio::post(stream_.get_executor(), [self = shared_from_this()] { self->open(); });
  }

  void shut_down() override {
    asio::post(stream_.get_executor(), [self = shared_from_this()] {
      self->shutting_down_ = true;
      if (const auto subscription = self->subscription_.lock()) return subscription->shut_down();
      if (!self->upgraded_) self->stream_.close();
    });
  }

 private:
  using Exchange = UploadExchange;
  using PlaceAnswer = Result<std::unique_ptr<SubscriptionPlace>>;

  void open() {
    if (shutting_down_) return;
    error_code gone;
    peer_ = stream_.tcp().socket().remote_endpoint(gone).address();
    is_through_proxy_ = is_trusted(peer_, options_->trusted_proxies);
    stream_.tcp().expires_after(options_->handshake_timeout);
    if (is_through_proxy_ && options_->proxy_protocol) return read_proxy_header();
    begin();
  }

  void read_proxy_header() {
    asio::async_read(stream_, asio::buffer(scratch_, proxy_header_.wanted()),
                     [self = shared_from_this()](const error_code& error, size_t bytes) {
                       error ? self->refuse_proxy_header() : self->on_proxy_header(bytes);
                     });
  }

  void on_proxy_header(size_t bytes) {
    switch (proxy_header_.take({scratch_.data(), bytes})) {
      case ProxyHeaderReader::State::more:
        return read_proxy_header();
      case ProxyHeaderReader::State::bad:
        return refuse_proxy_header();
      case ProxyHeaderReader::State::done:
        break;
    }
    if (!proxy_header_.client()) return begin();
    peer_ = *proxy_header_.client();
    is_through_proxy_ = is_trusted(peer_, options_->trusted_proxies);
    if (is_through_proxy_) return begin();
    ticket_.claim_address(address_account(peer_), [self = shared_from_this()](bool may_enter) {
      asio::post(self->stream_.get_executor(),
                 [self, may_enter] { may_enter ? self->begin() : self->stream_.close(); });
    });
  }

  void refuse_proxy_header() {
    ++hub_.stats.bad_proxy_headers;
    stream_.close();
  }

  void begin() { tls_ ? read_first_byte() : read(); }

  /// Tells TLS from a client that does not know that it is spoken here.
  void read_first_byte() {
    if (shutting_down_) return;
    stream_.tcp().expires_after(options_->handshake_timeout);
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
    stream_.async_handshake(*tls_, first_byte_, [self = shared_from_this()](const error_code& error) {
      self->on_handshake(error);
    });
  }

  void on_handshake(const error_code& error) {
    if (!error) return read();
    ++hub_.stats.failed_handshakes;
    stream_.close();
  }

  void read() {
    if (shutting_down_) return;
    added_headers_ = tls_ ? strict_transport_security() : proto::Headers();
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(options_->max_header_bytes));
    stream_.tcp().expires_after(options_->handshake_timeout);
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
    const Target target = this->target();
    const bool is_upgrade = beast::websocket::is_upgrade(request);
    if (const WebFile* const page = is_upgrade ? nullptr : find_page(target.path, port_.serves)) {
      return write(answer_page(*page, method(), header(request, http::field::if_none_match)),
                   parser_->keep_alive() && parser_->is_done());
    }
    const std::string_view origin = header(request, http::field::origin);
    if (!origin.empty() && !may_use(origin, header(request, http::field::host), options_->allowed_origins)) {
      return refuse_origin();
    }
    for (auto& each : cors_headers(request)) added_headers_.push_back(std::move(each));
    if (is_preflight(method(), request)) return write(preflight_reply(), may_keep_alive());
    if (is_public(target.path)) return write(plain_answer(), may_keep_alive());
    route(target, is_upgrade);
  }

  [[nodiscard]] Target target() const {
    const auto whole = parser_->get().target();
    return split_target({whole.data(), whole.size()});
  }

  [[nodiscard]] std::string_view method() const {
    const auto name = parser_->get().method_string();
    return {name.data(), name.size()};
  }

  void route(const Target& target, bool is_upgrade) {
    const bool is_post = parser_->get().method() == http::verb::post;
    if (port_.serves == Serves::admin) {
      const auto command = is_post && hub_.admin != nullptr ? admin_command(target.path) : std::nullopt;
      if (command) return ask({.right = Right::admin}, [this, command](Visit) { administer(*command); });
    } else {
      if (auto stream = proto::watched_stream(target.path)) {
        return ask({.right = Right::monitor},
                   [this, stream = std::move(*stream)](Visit visit) { subscribe(stream, std::move(visit)); });
      }
      if (const auto* const dialect = dialect_at(target.path); dialect != nullptr && is_upgrade) {
        return ask({.right = Right::stream, .is_stream = true},
                   [this, dialect](Visit visit) { upgrade(*dialect, std::move(visit)); });
      }
      if (target.path == transcriptions_path && is_post) {
        return ask({.right = Right::upload, .is_stream = true},
                   [this](Visit visit) { upload(std::move(visit)); });
      }
    }
    ask({.right = right_for(target.path)}, [this](Visit) { write(plain_answer(), may_keep_alive()); });
  }

  [[nodiscard]] HttpReply plain_answer() const {
    const Target target = this->target();
    return answer(method(), target.path, dialect_at(target.path), hub_.status, port_.serves);
  }

  [[nodiscard]] const proto::DialectEntry* dialect_at(std::string_view path) const {
    if (port_.serves == Serves::admin) return nullptr;
    return port_.root_dialect != nullptr && path == "/" ? port_.root_dialect : proto::find_dialect_at(path);
  }

  /// Who asks, and whether he may: what he asked for is done then. Meanwhile nothing is read.
  void ask(Ask wanted, std::function<void(Visit)> then) {
    const auto& request = parser_->get();
    wanted.credentials = credential_headers(request);
    client_address_ = client_address(peer_, forwarded_for(request), options_->trusted_proxies);
    // Else the connection is counted.
    const bool holds = wanted.is_stream || wanted.right == Right::monitor;
    if (is_through_proxy_ && holds) wanted.address_account = address_account(client_address_);
    stream_.tcp().expires_never();
    hub_.admit(std::move(wanted), [self = shared_from_this(), then = std::move(then)](Admitted<Visit> visit) {
      asio::post(self->stream_.get_executor(), [self, then, visit = std::move(visit)]() mutable {
        if (self->shutting_down_) return;
        visit ? then(std::move(*visit)) : self->refuse_client(visit.error());
      });
    });
  }

  void refuse_client(const Refusal& refused) {
    ++(refused.status == 401   ? hub_.stats.unauthorized_requests
       : refused.status == 403 ? hub_.stats.forbidden_requests
                               : hub_.stats.limited_requests);
    note_refusal(refused.error.code);
    HttpReply reply = target().path == transcriptions_path
                          ? api_error_reply({.status = refused.status,
                                             .code = refused.error.code,
                                             .message = refused.error.message,
                                             .param = {}})
                          : error_reply(refused.status, refused.error.code, refused.error.message);
    if (refused.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    if (refused.retry_after_s > 0) {
      reply.headers.emplace_back("Retry-After", std::to_string(refused.retry_after_s));
    }
    write(std::move(reply), may_keep_alive());
  }

  void refuse_origin() {
    ++hub_.stats.refused_origins;
    const std::string code = "origin_not_allowed";
    note_refusal(code);
    write(error_reply(
              403, code,
              "pages of other origins may not use this server, unless server.allowed_origins names them"),
          may_keep_alive());
  }

  /// Of a stream, if it was one that was asked for.
  void note_refusal(const std::string& code) const {
    const auto& request = parser_->get();
    const std::string_view path = target().path;
    if (path == transcriptions_path && request.method() == http::verb::post) {
      return hub_.status.note_refusal(upload_label, code);
    }
    const auto* const dialect = dialect_at(path);
    if (dialect == nullptr || !beast::websocket::is_upgrade(request)) return;
    hub_.status.note_refusal(dialect->name, code);
  }

  void administer(AdminCommand command) {
    if (command == AdminCommand::drain) {
      hub_.admin->drain();
      return write({202, "text/plain; charset=utf-8", "draining\n", {}}, may_keep_alive());
    }
    hub_.admin->reload([self = shared_from_this()](Result<std::string> done) {
      asio::post(self->stream_.get_executor(), [self, done = std::move(done)] {
        if (self->shutting_down_) return;
        self->write(done ? HttpReply{200, "text/plain; charset=utf-8", *done + "\n", {}}
                         : error_reply(409, done.error().code, done.error().message),
                    self->may_keep_alive());
      });
    });
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
    return !tls_ && buffer_.size() > 0 &&
           *static_cast<const char*>(buffer_.data().data()) == tls_handshake_record;
  }

  void upgrade(const proto::DialectEntry& dialect, Visit visit) {
    if (buffer_.size() > 0) return refuse_early_data();
    if (const auto refusal = hub_.status.refusal(dialect.name)) {
      ++hub_.stats.refused_sessions;
      return write(try_again_later(error_reply(503, refusal->code, refusal->message)), may_keep_alive());
    }
    auto slot = SessionSlot::take(hub_.stats, options_->max_sessions);
    if (!slot) {
      hub_.status.note_refusal(dialect.name, "full");
      ++hub_.stats.refused_sessions;
      return write(try_again_later(error_reply(503, "full",
                                               "the server has all the sessions it allows; try again later")),
                   parser_->keep_alive());
    }
    const proto::Handshake handshake = handshake_of(parser_->get(), target());
    auto acceptance = dialect.accept(handshake);
    if (auto* const refused = std::get_if<proto::Refused>(&acceptance)) {
      slot.reset();  // before the client knows: it may try again at once
      hub_.status.note_refusal(dialect.name, "bad_request");
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
                      .visit = std::move(visit),
                      .address = client_address_.to_string()});
  }

  void refuse_early_data() {
    write(error_reply(400, "bad_request", "data was sent before the WebSocket handshake was answered"),
          false);
  }

  /// A WebSocket that is asked for, or else an event stream.
  void subscribe(const Result<std::string>& stream, Visit visit) {
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
        .stream = *stream,
        .client = visit.client(),
        .form = upgrades ? proto::SubscriberForm::websocket : proto::SubscriberForm::event_stream,
        .after = proto::parse_event_place({after.data(), after.size()})};
    visit_.emplace(std::move(visit));
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
    write(is_full ? try_again_later(std::move(reply)) : std::move(reply), may_keep_alive());
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
                      .visit = std::move(*visit_),
                      .address = {}});
  }

  void serve_events(std::unique_ptr<SubscriptionPlace> place) {
    const auto subscription = std::make_shared<SubscriptionExchange>(
        shared_from_this(), ticket_.shared_hub(), options_, stream_, buffer_, std::move(place),
        StreamedReply(parser_->get().version() < 11, may_keep_alive(), added_headers_),
        [this](bool keep_alive) {
          subscription_.reset();
          visit_.reset();
          if (shutting_down_ || !keep_alive) return stream_.close();
          read();
        });
    subscription_ = subscription;
    subscription->start();
  }

  [[nodiscard]] bool may_keep_alive() const { return parser_->keep_alive() && parser_->is_done(); }

  void upload(Visit visit) {
    visit_.emplace(std::move(visit));
    std::make_shared<Exchange>(shared_from_this(), hub_, *options_, stream_, buffer_, std::move(*parser_),
                               added_headers_, *visit_,
                               [this](Exchange::Outcome outcome) { on_uploaded(std::move(outcome)); })
        ->start();
  }

  void on_uploaded(Exchange::Outcome outcome) {
    visit_.reset();
    if (outcome.broken || shutting_down_) return stream_.close();
    if (outcome.refusal) return write(std::move(*outcome.refusal), outcome.keep_alive);
    finish_reply(outcome.keep_alive);
  }

  void write(HttpReply reply, bool keep_alive) {
    visit_.reset();
    response_ = {};
    response_.version(11);
    response_.result(reply.status);
    response_.set(http::field::server, options_->server_name);
    if (!reply.content_type.empty()) response_.set(http::field::content_type, reply.content_type);
    response_.keep_alive(keep_alive);
    for (const auto& [name, value] : reply.headers) response_.insert(name, value);
    for (const auto& [name, value] : added_headers_) response_.insert(name, value);
    response_.set("X-Content-Type-Options", "nosniff");
    response_.body() = std::move(reply.body);
    response_.prepare_payload();
    // It would be the length that the page has (RFC 9110, section 8.6).
    if (response_.result() == http::status::not_modified) response_.erase(http::field::content_length);
    if (parser_->is_header_done() && parser_->get().method() == http::verb::head) response_.body().clear();
    stream_.tcp().expires_after(options_->handshake_timeout);
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
    stream_.tcp().async_read_some(
        asio::buffer(scratch_), [self = shared_from_this(), drained](const error_code& error, size_t bytes) {
          if (error || drained + bytes > max_drained_bytes) return self->stream_.close();
          self->drain(drained + bytes);
        });
  }

  ConnectionTicket ticket_;
  Hub& hub_;
  std::shared_ptr<const NetOptions> options_;
  std::shared_ptr<TlsContext> tls_;
  HttpPort port_;
  Transport stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  http::response<http::string_body> response_;
  char first_byte_ = 0;
  ProxyHeaderReader proxy_header_;
  std::array<char, ProxyHeaderReader::most_wanted> scratch_{};  // of what is not kept
  asio::ip::address peer_;
  bool is_through_proxy_ = false;     // whose word for its clients is taken
  asio::ip::address client_address_;  // of the request
  proto::Headers added_headers_;      // to whatever is replied to it
  std::optional<Visit> visit_;        // while the request takes time
  std::weak_ptr<SubscriptionExchange> subscription_;
  bool shutting_down_ = false;
  bool upgraded_ = false;  // the socket is another's
};

}  // namespace

void start_http_session(ConnectionTicket ticket, tcp::socket socket, std::shared_ptr<TlsContext> tls,
                        HttpPort port) {
  std::make_shared<HttpSession>(std::move(ticket), std::move(socket), std::move(tls), port)->run();
}

}  // namespace tutti
