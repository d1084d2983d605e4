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
#include "net/audiosocket_session.hpp"
#include "net/client_address.hpp"
#include "net/http_session.hpp"
#include "net/session_slot.hpp"

namespace tutti {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// Connections beyond sessions and subscribers: room for health checks, scrapes and refusals. At this cap
// nothing is accepted until a connection ends; the kernel's backlog waits.
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
tcp::endpoint allowed_endpoint(const NetOptions& options, const std::string& bind, std::string_view flag) {
  const tcp::endpoint endpoint = required_endpoint(bind);
  if (endpoint.address().is_loopback() || options.credentials.required() || options.insecure) return endpoint;
  throw SetupError(fmt::format(
      "will not listen on {} for everybody who can reach it: let in who has a key with "
      "--api-keys-file FILE (`tutti keygen NAME` makes keys), or listen for this machine alone with "
      "{} 127.0.0.1:{}, or say --insecure",
      bind, flag, endpoint.port()));
}

/// It has no keys that could be asked for.
tcp::endpoint allowed_audiosocket(const NetOptions& options) {
  const tcp::endpoint endpoint = required_endpoint(options.audiosocket);
  if (endpoint.address().is_loopback() || options.insecure) return endpoint;
  throw SetupError(fmt::format(
      "will not listen on {} for everybody who can reach it: AudioSocket has neither keys nor TLS; listen "
      "for "
      "this machine alone with --audiosocket 127.0.0.1:{}, or, where only your telephone system can "
      "reach it, say --insecure",
      options.audiosocket, endpoint.port()));
}

[[noreturn]] void refuse_address(const std::string& address, const error_code& error, std::string_view flag) {
  std::string why = error.message();
  why[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(why[0])));
  throw SetupError(fmt::format("cannot listen on {}: {}; choose another with {}", address, why, flag));
}

std::shared_ptr<TlsContext> make_context(const TlsIdentity& identity) {
  SSL_CTX_up_ref(identity.context.get());
  return std::make_shared<TlsContext>(identity.context.get());
}

std::string to_string(const tcp::endpoint& endpoint) {
  const auto host = endpoint.address();
  return host.is_v6() ? fmt::format("[{}]:{}", host.to_string(), endpoint.port())
                      : fmt::format("{}:{}", host.to_string(), endpoint.port());
}

/// Not the port itself: a server that is running may have it until the checked one takes its place.
void check_address(const tcp::endpoint& endpoint, std::string_view flag) {
  asio::io_context io;
  tcp::socket socket(io);
  error_code error;
  socket.open(endpoint.protocol(), error);
  if (!error) socket.bind(tcp::endpoint(endpoint.address(), 0), error);
  if (error) refuse_address(to_string(endpoint), error, flag);
}

}  // namespace

void check_listener(const NetOptions& options) {
  if (options.bind) check_address(allowed_endpoint(options, *options.bind, "--bind"), "--bind");
  if (!options.admin_bind.empty()) {
    check_address(allowed_endpoint(options, options.admin_bind, "--admin-bind"), "--admin-bind");
  }
  if (!options.audiosocket.empty()) check_address(allowed_audiosocket(options), "--audiosocket");
}

Visit::~Visit() {
  if (!hub_) return;
  asio::post(hub_->strand_,
             [hub = hub_.get(), client = std::move(client_), is_stream = is_stream_,
              account = std::move(address_account_)] { hub->door_.leave(client, is_stream, account); });
}

void Visit::note_audio(std::chrono::milliseconds audio, std::function<void()> on_exhausted) const {
  if (client_.terms.limits.max_audio_minutes_per_day == 0) return;
  asio::post(hub_->strand_,
             [hub = hub_.get(), client = client_, audio, on_exhausted = std::move(on_exhausted)] {
               if (!hub->door_.note_audio(client, audio, Door::Time::clock::now())) on_exhausted();
             });
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

void ConnectionTicket::claim_address(std::string account, std::function<void(bool)> answer) const {
  asio::post(hub_->strand_,
             [hub = hub_.get(), id = id_, account = std::move(account),
              answer = std::move(answer)]() mutable { hub->claim_address(id, std::move(account), answer); });
}

Hub::Hub(const NetOptions& options, GatewayPort& gateway_port, const StatusPort& status_port,
         UploadPort& upload_port, SubscriptionPort& subscription_port)
    : gateway(gateway_port),
      status(status_port),
      uploads(upload_port),
      subscriptions(subscription_port),
      has_tls_(options.tls.has_value()),
      has_admin_port_(!options.admin_bind.empty()),
      strand_(asio::make_strand(io)),
      options_(std::make_shared<const NetOptions>(options)),
      door_(options.credentials, options.max_connections_per_address) {
  if (has_tls_) tls_ = make_context(*options.tls);
  using enum Listener::Kind;
  if (options.bind) {
    const tcp::endpoint endpoint = allowed_endpoint(options, *options.bind, "--bind");
    listen(listeners_.emplace_back(strand_, endpoint, http, nullptr), "--bind");
    for (const DialectPort& own : options.dialect_ports) {
      const tcp::endpoint where(endpoint.address(), own.port);
      listen(listeners_.emplace_back(strand_, where, http, own.dialect), "--dialect-at");
    }
  }
  if (!options.admin_bind.empty()) {
    const tcp::endpoint where = allowed_endpoint(options, options.admin_bind, "--admin-bind");
    listen(listeners_.emplace_back(strand_, where, admin, nullptr), "--admin-bind");
  }
  if (!options.audiosocket.empty()) {
    const tcp::endpoint where = allowed_audiosocket(options);
    listen(listeners_.emplace_back(strand_, where, audiosocket, nullptr), "--audiosocket");
  }
}

void Hub::listen(Listener& listener, std::string_view flag) {
  tcp::acceptor& acceptor = listener.acceptor;
  error_code error;
  acceptor.open(listener.endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  // Accepted sockets inherit it.
  if (!error) acceptor.set_option(asio::socket_base::receive_buffer_size(receive_buffer_bytes), error);
  if (!error) acceptor.bind(listener.endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) refuse_address(to_string(listener.endpoint), error, flag);
  listener.endpoint = acceptor.local_endpoint();
}

std::vector<ListenerAddress> Hub::listeners() const {
  std::vector<ListenerAddress> all;
  for (const Listener& each : listeners_) {
    all.push_back({.address = to_string(each.endpoint),
                   .root_dialect = each.root_dialect == nullptr ? "" : each.root_dialect->name,
                   .is_audiosocket = each.kind == Listener::Kind::audiosocket,
                   .is_admin = each.kind == Listener::Kind::admin});
  }
  return all;
}

void Hub::use(const NetOptions& options) {
  if (has_tls_ != options.tls.has_value()) {
    throw SetupError(
        fmt::format("the server was started with{} TLS; a certificate can be replaced, not {}: restart it",
                    has_tls_ ? "" : "out", has_tls_ ? "taken away" : "added"));
  }
  asio::post(strand_, [this, options = std::make_shared<const NetOptions>(options),
                       context = has_tls_ ? make_context(*options.tls) : nullptr] {
    options_ = options;
    tls_ = context;
    door_.use(options->credentials, options->max_connections_per_address);
    accept_next();
  });
}

void Hub::admit(Ask ask, std::function<void(Admitted<Visit>)> answer) {
  asio::post(strand_, [this, ask = std::move(ask), answer = std::move(answer)]() mutable {
    auto client = door_.admit(ask, Door::Time::clock::now());
    if (!client) return answer(tl::unexpected(std::move(client.error())));
    // What has no limit is not counted at the door.
    const bool is_counted = ask.is_stream && client->terms.limits != ClientLimits{};
    answer(Visit(shared_from_this(), std::move(*client), is_counted, std::move(ask.address_account)));
  });
}

void Hub::start_accepting() {
  asio::post(strand_, [this] { accept_next(); });
}

void Hub::stop_accepting() {
  asio::post(strand_, [this] {
    stopped_accepting_ = true;
    for (Listener& listener : listeners_) {
      error_code ignored;
      listener.acceptor.close(ignored);
      listener.retry.cancel();
    }
  });
}

void Hub::shut_down() {
  stop_accepting();
  asio::post(strand_, [this] {
    shutting_down_ = true;
    for (const auto& [id, entry] : connections_) {
      if (const auto connection = entry.connection.lock()) connection->shut_down();
    }
  });
}

void Hub::accept_next() {
  for (Listener& listener : listeners_) accept_on(listener);
}

void Hub::accept_on(Listener& listener) {
  const size_t most = static_cast<size_t>(options_->max_sessions) +
                      static_cast<size_t>(options_->max_subscribers) + spare_connections;
  if (stopped_accepting_ || listener.accept_pending || connections_.size() >= most) return;
  listener.accept_pending = true;
  listener.acceptor.async_accept(asio::make_strand(io),
                                 [this, &listener](const error_code& error, tcp::socket socket) {
                                   on_accept(listener, error, std::move(socket));
                                 });
}

void Hub::on_accept(Listener& listener, const error_code& error, tcp::socket socket) {
  listener.accept_pending = false;
  if (stopped_accepting_) return;
  if (error) return retry_later(listener, error);
  listener.accept_failing = false;
  ++stats.accepted_connections;
  error_code gone;
  const auto peer = socket.remote_endpoint(gone).address();
  const bool is_proxy = is_trusted(peer, options_->trusted_proxies);
  std::string account = is_proxy ? std::string() : address_account(peer);
  if (gone || !door_.enter(account)) {
    if (!gone) ++stats.refused_addresses;
    return accept_on(listener);
  }
  const uint64_t id = next_id_++;
  connections_.emplace(id, Entry{{}, std::move(account)});
  stats.open_connections = static_cast<int64_t>(connections_.size());
  accept_on(listener);
  serve(listener, ConnectionTicket(shared_from_this(), id, options_), std::move(socket));
}

void Hub::claim_address(uint64_t id, std::string account, const std::function<void(bool)>& answer) {
  const bool may_enter = door_.enter(account);
  if (may_enter) {
    connections_.at(id).address_account = std::move(account);
  } else {
    ++stats.refused_addresses;
  }
  answer(may_enter);
}

void Hub::serve(Listener& listener, ConnectionTicket ticket, tcp::socket socket) {
  if (listener.kind != Listener::Kind::audiosocket) {
    const bool is_admin = listener.kind == Listener::Kind::admin;
    return start_http_session(std::move(ticket), std::move(socket), tls_,
                              {.root_dialect = listener.root_dialect,
                               .serves = is_admin          ? Serves::admin
                                         : has_admin_port_ ? Serves::clients
                                                           : Serves::everything});
  }
  auto slot = SessionSlot::take(stats, options_->max_sessions);
  if (slot) return start_audiosocket_session(std::move(ticket), std::move(*slot), std::move(socket));
  ++stats.refused_sessions;  // whom it cannot be told
}

// Out of file descriptors or memory: the waiting connection stays in the backlog, so an immediate retry would
// spin.
void Hub::retry_later(Listener& listener, const error_code& error) {
  ++stats.failed_accepts;
  if (!listener.accept_failing) spdlog::warn("cannot accept a connection: {}", error.message());
  listener.accept_failing = true;
  listener.retry.expires_after(accept_retry);
  listener.retry.async_wait([this, &listener](const error_code& cancelled) {
    if (!cancelled) accept_on(listener);
  });
}

void Hub::assign(uint64_t id, std::weak_ptr<Connection> connection) {
  if (shutting_down_) {
    if (const auto open = connection.lock()) open->shut_down();
  }
  connections_.at(id).connection = std::move(connection);
}

void Hub::forget(uint64_t id) {
  const auto found = connections_.find(id);
  door_.leave(found->second.address_account);
  connections_.erase(found);
  stats.open_connections = static_cast<int64_t>(connections_.size());
  accept_next();
}

}  // namespace tutti
