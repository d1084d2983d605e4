#include "net/hub.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/socket_base.hpp>

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <spdlog/spdlog.h>

#include <cctype>
#include <charconv>
#include <optional>

#include "config/result.hpp"
#include "net/http_session.hpp"

namespace tutti {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// Connections beyond the sessions: room for health checks, scrapes and refusals. At this cap nothing is
// accepted until a connection ends; the kernel's backlog waits.
constexpr size_t spare_connections = 64;
// Of a socket the server does not read. A client that sends faster than its audio is recognized fills it, and
// its pings wait behind that audio: left to the kernel it would grow to minutes of audio, and clients would
// time out.
constexpr int receive_buffer_bytes = 256 << 10;
constexpr auto accept_retry = std::chrono::milliseconds(100);

std::optional<tcp::endpoint> parse_endpoint(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view port_text = text.substr(colon + 1);
  uint16_t port = 0;
  const auto [end, failure] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (failure != std::errc{} || end != port_text.data() + port_text.size()) return std::nullopt;

  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  // Without brackets the last colon of an IPv6 address would pass for the port's.
  if (error || address.is_v6() != bracketed) return std::nullopt;
  return tcp::endpoint(address, port);
}

tcp::endpoint required_endpoint(const std::string& bind) {
  const auto endpoint = parse_endpoint(bind);
  if (!endpoint) {
    throw SetupError(
        fmt::format("cannot listen on \"{}\": not ADDRESS:PORT; write for example 127.0.0.1:8080, "
                    "0.0.0.0:8080 or [::1]:8080",
                    bind));
  }
  return *endpoint;
}

/// Nobody is left in charge of a server by accident.
tcp::endpoint allowed_endpoint(const NetOptions& options) {
  const tcp::endpoint endpoint = required_endpoint(options.bind);
  if (endpoint.address().is_loopback() || options.credentials.required() || options.insecure) return endpoint;
  throw SetupError(fmt::format(
      "will not listen on {} for everybody who can reach it: let in who has a key with "
      "--api-keys-file FILE (`tutti keygen NAME` makes keys), or listen for this machine alone with "
      "--bind 127.0.0.1:{}, or say --insecure",
      options.bind, endpoint.port()));
}

[[noreturn]] void refuse_address(const std::string& bind, const error_code& error) {
  std::string why = error.message();
  why[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(why[0])));
  throw SetupError(fmt::format("cannot listen on {}: {}; choose another with --bind", bind, why));
}

}  // namespace

void check_listener(const NetOptions& options) {
  const tcp::endpoint endpoint = allowed_endpoint(options);
  asio::io_context io;
  tcp::socket socket(io);
  error_code error;
  socket.open(endpoint.protocol(), error);
  // Not the port itself: a server that is running may have it until the checked one takes its place.
  if (!error) socket.bind(tcp::endpoint(endpoint.address(), 0), error);
  if (error) refuse_address(options.bind, error);
}

ConnectionTicket::~ConnectionTicket() {
  if (!hub_) return;
  asio::post(hub_->strand_, [hub = hub_.get(), id = id_] { hub->forget(id); });
}

void ConnectionTicket::assign(std::weak_ptr<Connection> connection) const {
  asio::post(hub_->strand_, [hub = hub_.get(), id = id_, connection = std::move(connection)] {
    hub->assign(id, connection);
  });
}

Hub::Hub(const NetOptions& net_options, GatewayPort& gateway_port, const StatusPort& status_port,
         UploadPort& upload_port)
    : options(net_options),
      gateway(gateway_port),
      status(status_port),
      uploads(upload_port),
      strand_(asio::make_strand(io)),
      acceptor_(strand_),
      endpoint_(allowed_endpoint(options)),
      retry_(strand_) {
  if (options.tls) {
    SSL_CTX* const context = options.tls->context.get();
    SSL_CTX_up_ref(context);
    tls.emplace(context);
  }
  listen();
}

void Hub::listen() {
  error_code error;
  acceptor_.open(endpoint_.protocol(), error);
  if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  // Accepted sockets inherit it.
  if (!error) acceptor_.set_option(asio::socket_base::receive_buffer_size(receive_buffer_bytes), error);
  if (!error) acceptor_.bind(endpoint_, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) refuse_address(options.bind, error);
  endpoint_ = acceptor_.local_endpoint();
}

std::string Hub::address() const {
  const auto host = endpoint_.address();
  return host.is_v6() ? fmt::format("[{}]:{}", host.to_string(), endpoint_.port())
                      : fmt::format("{}:{}", host.to_string(), endpoint_.port());
}

void Hub::start_accepting() {
  asio::post(strand_, [this] { accept_next(); });
}

void Hub::stop_accepting() {
  asio::post(strand_, [this] {
    stopped_accepting_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
  });
}

void Hub::shut_down() {
  stop_accepting();
  asio::post(strand_, [this] {
    shutting_down_ = true;
    for (const auto& [id, entry] : connections_) {
      if (const auto connection = entry.lock()) connection->shut_down();
    }
  });
}

void Hub::accept_next() {
  const size_t most = static_cast<size_t>(options.max_sessions) + spare_connections;
  if (stopped_accepting_ || accept_pending_ || connections_.size() >= most) return;
  accept_pending_ = true;
  acceptor_.async_accept(asio::make_strand(io), [this](const error_code& error, tcp::socket socket) {
    on_accept(error, std::move(socket));
  });
}

void Hub::on_accept(const error_code& error, tcp::socket socket) {
  accept_pending_ = false;
  if (stopped_accepting_) return;
  if (error) return retry_later(error);
  accept_failing_ = false;
  ++stats.accepted_connections;
  const uint64_t id = next_id_++;
  connections_.emplace(id, std::weak_ptr<Connection>());
  stats.open_connections = static_cast<int64_t>(connections_.size());
  accept_next();
  start_http_session(ConnectionTicket(shared_from_this(), id), std::move(socket));
}

// Out of file descriptors or memory: the waiting connection stays in the backlog, so an immediate retry would
// spin.
void Hub::retry_later(const error_code& error) {
  ++stats.failed_accepts;
  if (!accept_failing_) spdlog::warn("cannot accept a connection: {}", error.message());
  accept_failing_ = true;
  retry_.expires_after(accept_retry);
  retry_.async_wait([this](const error_code& cancelled) {
    if (!cancelled) accept_next();
  });
}

void Hub::assign(uint64_t id, std::weak_ptr<Connection> connection) {
  if (shutting_down_) {
    if (const auto open = connection.lock()) open->shut_down();
  }
  connections_.at(id) = std::move(connection);
}

void Hub::forget(uint64_t id) {
  connections_.erase(id);
  stats.open_connections = static_cast<int64_t>(connections_.size());
  accept_next();
}

}  // namespace tutti
