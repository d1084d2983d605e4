#include "cluster/dialer.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <thread>
#include <utility>

namespace tutti {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto probe_timeout = std::chrono::seconds(2);
// Of one name; more are passed over.
constexpr size_t max_addresses = 256;

std::string to_string(const tcp::endpoint& endpoint) {
  const auto host = endpoint.address().to_string();
  return fmt::format(fmt::runtime(endpoint.address().is_v6() ? "[{}]:{}" : "{}:{}"), host, endpoint.port());
}

/// One probe: connects, shakes hands, and waits for the engine's first byte, which it sends by itself once it
/// has accepted this side's certificate.
class Probe : public std::enable_shared_from_this<Probe> {
 public:
  Probe(asio::io_context& io, asio::ssl::context& tls, Dialer::Outcome answer)
      : deadline_(io), stream_(io, tls), answer_(std::move(answer)) {}

  void start(const tcp::endpoint& endpoint) {
    deadline_.expires_after(probe_timeout);
    deadline_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->finish(fail("no_answer", "it does not answer"));
    });
    stream_.lowest_layer().async_connect(
        endpoint, [self = shared_from_this()](const error_code& error) { self->on_connected(error); });
  }

 private:
  void on_connected(const error_code& error) {
    if (error) return finish(fail("not_connected", error.message()));
    stream_.async_handshake(asio::ssl::stream_base::client,
                            [self = shared_from_this()](const error_code& failure) {
                              if (failure) return self->finish(fail("bad_certificate", reason(failure)));
                              self->await_byte();
                            });
  }

  void await_byte() {
    stream_.async_read_some(asio::buffer(byte_),
                            [self = shared_from_this()](const error_code& error, size_t /*bytes*/) {
                              if (error) return self->finish(fail("refused", reason(error)));
                              self->finish({});
                            });
  }

  static std::string reason(const error_code& error) {
    return fmt::format("TLS between it and this process fails: {}", error.message());
  }

  void finish(Result<void> outcome) {
    if (!answer_) return;
    deadline_.cancel();
    error_code ignored;
    stream_.lowest_layer().close(ignored);
    std::exchange(answer_, nullptr)(std::move(outcome));
  }

  asio::steady_timer deadline_;
  asio::ssl::stream<tcp::socket> stream_;
  std::array<char, 1> byte_{};
  Dialer::Outcome answer_;  // null once it was called
};

}  // namespace

struct Dialer::Impl {
  explicit Impl(const ClusterCredentials& files) {
    tls.use_certificate_chain_file(files.certificate);
    tls.use_private_key_file(files.key, asio::ssl::context::pem);
    tls.load_verify_file(files.ca);
    tls.set_verify_mode(asio::ssl::verify_peer);
  }

  asio::ssl::context tls{asio::ssl::context::tls_client};
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  std::thread thread;
};

Dialer::Dialer(const ClusterCredentials& files) : impl_(std::make_unique<Impl>(files)) {
  impl_->thread = std::thread([&io = impl_->io] { io.run(); });
}

Dialer::~Dialer() {
  impl_->io.stop();
  impl_->thread.join();
}

void Dialer::resolve(const std::string& name, Addresses answer) {
  const HostPort at = split_host_port(name);
  auto resolver = std::make_shared<tcp::resolver>(impl_->io);
  resolver->async_resolve(at.host, at.port,
                          [resolver, answer = std::move(answer)](const error_code& error, const auto& found) {
                            if (error) return answer(fail("no_address", error.message()));
                            std::vector<std::string> addresses;
                            for (const auto& entry : found) {
                              if (addresses.size() == max_addresses) break;
                              addresses.push_back(to_string(entry.endpoint()));
                            }
                            answer(std::move(addresses));
                          });
}

void Dialer::probe(const std::string& address, Outcome answer) {
  const HostPort at = split_host_port(address);
  const tcp::endpoint endpoint(asio::ip::make_address(at.host), static_cast<uint16_t>(std::stoi(at.port)));
  asio::post(impl_->io, [impl = impl_.get(), endpoint, answer = std::move(answer)]() mutable {
    std::make_shared<Probe>(impl->io, impl->tls, std::move(answer))->start(endpoint);
  });
}

HostPort split_host_port(const std::string& text) {
  const size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  if (host.front() == '[') host = host.substr(1, host.size() - 2);
  return {.host = std::move(host), .port = text.substr(colon + 1)};
}

namespace {

bool is_local_network(const asio::ip::address& address) {
  if (address.is_loopback()) return true;
  if (address.is_v6()) {
    const auto v6 = address.to_v6();
    return v6.is_link_local() || (v6.to_bytes()[0] & 0xfe) == 0xfc;  // RFC 4193
  }
  // RFC 1918, 3927, 6598.
  for (const char* const range :
       {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10"}) {
    const auto network = asio::ip::make_network_v4(range);
    if (asio::ip::network_v4(address.to_v4(), network.prefix_length()).canonical() == network) return true;
  }
  return false;
}

}  // namespace

void check_cluster_address(const std::string& bind, bool allow_any) {
  error_code error;
  const auto address = asio::ip::make_address(split_host_port(bind).host, error);
  if (error) {
    throw SetupError(fmt::format(
        "cluster.bind = {}: not ADDRESS:PORT; write for example 127.0.0.1:7000 or 10.0.0.3:7000", bind));
  }
  if (allow_any || is_local_network(address)) return;
  throw SetupError(fmt::format(
      "cluster.bind = {}: will not listen on {} address: gateways and engines belong on a network of their "
      "own; bind a private address, or say --cluster-bind-any",
      bind, address.is_unspecified() ? "every" : "a public"));
}

}  // namespace tutti
