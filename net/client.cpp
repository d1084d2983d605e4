#include "net/client.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>

#include <fmt/format.h>

#include <cassert>
#include <utility>

#include "config/result.hpp"
#include "net/transport.hpp"

namespace tutti {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using asio::ip::tcp;
using beast::error_code;

namespace {

constexpr std::chrono::seconds connect_timeout{10};
// The server pings every 10 s.
constexpr std::chrono::seconds silence_timeout{60};
constexpr size_t max_message_bytes = size_t{16} << 20U;

}  // namespace

struct ClientLoop::Impl {
  asio::io_context io{1};
  asio::ssl::context tls{asio::ssl::context::tls_client};
};

ClientLoop::ClientLoop(const std::string& ca_file) : impl_(std::make_unique<Impl>()) {
  impl_->tls.set_default_verify_paths();
  impl_->tls.set_verify_mode(asio::ssl::verify_peer);
  if (ca_file.empty()) return;
  error_code error;
  impl_->tls.load_verify_file(ca_file, error);
  if (error) {
    throw SetupError(fmt::format("cannot read certificates from {}: {}; expected is a file in PEM form",
                                 ca_file, error.message()));
  }
}
ClientLoop::~ClientLoop() = default;

void ClientLoop::run() { impl_->io.run(); }
void ClientLoop::stop() { impl_->io.stop(); }
void ClientLoop::post(Task task) { asio::post(impl_->io, std::move(task)); }

void ClientLoop::call_at(TimePoint when, Task task) {
  auto timer = std::make_unique<asio::steady_timer>(impl_->io, when);
  asio::steady_timer& waiting = *timer;
  waiting.async_wait([timer = std::move(timer), task = std::move(task)](const error_code& error) {
    if (!error) task();
  });
}

/// Every operation that is under way holds the connection; `listener_` is null once it may hear nothing more.
class WsClient::Impl : public std::enable_shared_from_this<WsClient::Impl> {
 public:
  Impl(ClientLoop::Impl& loop, ClientUrl url, std::string api_key, ClientListener& listener)
      : url_(std::move(url)),
        api_key_(std::move(api_key)),
        tls_(loop.tls),
        resolver_(loop.io),
        ws_(tcp::socket(loop.io)),
        listener_(&listener) {}

  void connect() {
    resolver_.async_resolve(url_.host, url_.port,
                            [self = shared_from_this()](const error_code& error, const auto& endpoints) {
                              if (error) return self->end({ClientEnd::Kind::unreachable, 0, error.message()});
                              self->connect_to(endpoints);
                            });
  }

  [[nodiscard]] bool can_send() const { return open_ && !sending_; }

  void send(std::string message, bool binary) {
    assert(can_send());
    sending_ = true;
    outgoing_ = std::move(message);
    ws_.binary(binary);
    ws_.async_write(asio::buffer(outgoing_), [self = shared_from_this()](const error_code& error, size_t) {
      self->sending_ = false;
      // The read tells how a broken connection ended, after what the server still said.
      if (!error && self->open_ && self->listener_ != nullptr) self->listener_->on_sent();
    });
  }

  void drop() {
    listener_ = nullptr;
    open_ = false;
    resolver_.cancel();
    ws_.next_layer().close();
  }

 private:
  void connect_to(const tcp::resolver::results_type& endpoints) {
    ws_.next_layer().tcp().expires_after(connect_timeout);
    ws_.next_layer().tcp().async_connect(
        endpoints, [self = shared_from_this()](const error_code& error, const tcp::endpoint&) {
          if (error) return self->end({ClientEnd::Kind::unreachable, 0, error.message()});
          if (self->url_.secure) return self->encrypt();
          self->upgrade();
        });
  }

  void encrypt() {
    ws_.next_layer().async_client_handshake(
        tls_, url_.host, [self = shared_from_this()](const error_code& error) {
          if (error) return self->end({ClientEnd::Kind::untrusted, 0, error.message()});
          self->upgrade();
        });
  }

  void upgrade() {
    error_code ignored;
    beast::tcp_stream& stream = ws_.next_layer().tcp();
    stream.socket().set_option(tcp::no_delay(true), ignored);
    stream.expires_never();  // from here on the WebSocket keeps the time
    ws_.set_option(websocket::stream_base::timeout{connect_timeout, silence_timeout, false});
    ws_.set_option(websocket::stream_base::decorator([key = api_key_](websocket::request_type& request) {
      request.set(http::field::user_agent, "tutti");
      if (!key.empty()) request.set(http::field::authorization, "Bearer " + key);
    }));
    ws_.read_message_max(max_message_bytes);
    ws_.async_handshake(response_, url_.authority(), url_.target,
                        [self = shared_from_this()](const error_code& error) { self->on_upgrade(error); });
  }

  void on_upgrade(const error_code& error) {
    if (error == websocket::error::upgrade_declined) {
      return end({ClientEnd::Kind::refused, static_cast<int>(response_.result_int()), response_.body()});
    }
    if (error) return end({ClientEnd::Kind::unreachable, 0, error.message()});
    if (listener_ == nullptr) return;
    open_ = true;
    read();
    listener_->on_open();
  }

  void read() {
    ws_.async_read(incoming_, [self = shared_from_this()](const error_code& error, size_t) {
      if (error) return self->on_read_error(error);
      if (self->listener_ == nullptr) return;
      const auto bytes = self->incoming_.cdata();
      self->listener_->on_message({static_cast<const char*>(bytes.data()), bytes.size()});
      self->incoming_.clear();
      if (self->listener_ != nullptr) self->read();
    });
  }

  void on_read_error(const error_code& error) {
    if (error == websocket::error::closed) {
      const auto& reason = ws_.reason();
      return end({ClientEnd::Kind::closed, reason.code, {reason.reason.data(), reason.reason.size()}});
    }
    end({ClientEnd::Kind::lost, 0, error.message()});
  }

  void end(const ClientEnd& how) {
    open_ = false;
    if (listener_ != nullptr) std::exchange(listener_, nullptr)->on_end(how);
  }

  ClientUrl url_;
  std::string api_key_;
  asio::ssl::context& tls_;
  tcp::resolver resolver_;
  websocket::stream<Transport, /*deflateSupported=*/false> ws_;
  websocket::response_type response_;
  beast::flat_buffer incoming_;
  std::string outgoing_;
  ClientListener* listener_;
  bool open_ = false;
  bool sending_ = false;
};

WsClient::WsClient(ClientLoop& loop, ClientUrl url, std::string api_key, ClientListener& listener)
    : impl_(std::make_shared<Impl>(*loop.impl_, std::move(url), std::move(api_key), listener)) {}
WsClient::~WsClient() { impl_->drop(); }

void WsClient::connect() { impl_->connect(); }
bool WsClient::can_send() const { return impl_->can_send(); }
void WsClient::send_binary(std::string bytes) { impl_->send(std::move(bytes), true); }
void WsClient::send_text(std::string text) { impl_->send(std::move(text), false); }

}  // namespace tutti
