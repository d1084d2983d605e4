#include "net/callback_sender.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "net/transport.hpp"

namespace tutti {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using beast::error_code;

namespace {

constexpr size_t max_response_bytes = 64 << 10;
// After the first attempt; then twice as long each time.
constexpr std::chrono::milliseconds first_delay{1'000};
constexpr std::chrono::milliseconds longest_delay{60'000};

/// Whether the same message may be taken another time.
bool may_pass(unsigned status) { return status == 408 || status == 429 || status >= 500; }

using Endpoints = tcp::resolver::results_type;

/// Looks a name up, and has `io` call `handler` with what was found. On a thread that nobody waits for: the
/// system's look-up takes as long as it likes and cannot be stopped, and Asio's own resolver is joined with
/// its context, so that a name server that is silent would hold up the end of the program.
template <class Handler>
void look_up(std::shared_ptr<asio::io_context> io, const ClientUrl& url, Handler handler) {
  std::thread([io = std::move(io), host = url.host, port = url.port, handler = std::move(handler)]() mutable {
    asio::io_context own;
    error_code error;
    Endpoints found = tcp::resolver(own).resolve(host, port, error);
    asio::post(*io, [handler = std::move(handler), error, found = std::move(found)]() mutable {
      handler(error, found);
    });
  }).detach();
}

}  // namespace

Result<ClientUrl> parse_callback_url(std::string_view url) {
  const bool is_http = url.starts_with("http://") || url.starts_with("https://");
  const auto parsed = is_http ? parse_client_url("ws" + std::string(url.substr(4))) : fail("bad_url", "");
  if (!parsed) {
    return fail(
        "bad_url",
        fmt::format("\"{}\" is no URL to call; accepted is https://HOST[:PORT][/PATH], or http://", url));
  }
  ClientUrl result = *parsed;
  if (result.target.empty() || result.target.front() != '/') result.target.insert(0, "/");
  return result;
}

std::string sign_callback(std::string_view secret, int64_t time, std::string_view body) {
  const std::string text = fmt::format("{}.{}", time, body);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &size);
  return fmt::format("t={},v1={:02x}", time, fmt::join(digest.begin(), digest.begin() + size, ""));
}

/// Everything but post() runs on the thread. A handler of an attempt that is over, by its deadline for one,
/// has no effect: each is of a number, and only the last one counts.
class CallbackSender::Impl {
 public:
  explicit Impl(CallbackOptions options)
      : options_(std::move(options)), work_(io_->get_executor()), timer_(*io_), flush_timer_(*io_) {
    tls_.set_default_verify_paths();
    tls_.set_verify_mode(asio::ssl::verify_peer);
    if (!options_.ca_file.empty()) {
      error_code error;
      tls_.load_verify_file(options_.ca_file, error);
      if (error) {
        throw SetupError(fmt::format("callback.ca_file {}: {}; expected is a file in PEM form",
                                     options_.ca_file, error.message()));
      }
    }
    thread_ = std::thread([this] { io_->run(); });
  }

  void post(std::string id, std::string body) {
    if (stats.waiting.fetch_add(1) >= static_cast<int64_t>(options_.max_queued)) {
      --stats.waiting;
      ++stats.dropped;
      if (!dropping_.exchange(true)) {
        spdlog::error("callback: {} messages wait; what comes now is dropped, from {} on",
                      options_.max_queued, id);
      }
      return;
    }
    asio::post(*io_, [this, id = std::move(id), body = std::move(body)]() mutable {
      queue_.push_back({std::move(id), std::move(body), 0});
      next();
    });
  }

  void stop(std::chrono::milliseconds flush) {
    if (!thread_.joinable()) return;
    asio::post(*io_, [this, flush] {
      stopping_ = true;
      if (queue_.empty()) return end();
      flush_timer_.expires_after(flush);
      flush_timer_.async_wait([this](const error_code& error) {
        if (!error) end();
      });
    });
    thread_.join();
  }

  CallbackStats stats;

 private:
  /// Held by what is under way on it, which may end later than it counts.
  struct Connection {
    explicit Connection(tcp::socket socket) : stream(std::move(socket)) {}
    Transport stream;
    beast::flat_buffer buffer;
    http::request<http::string_body> request;
    std::optional<http::response_parser<http::string_body>> parser;
  };
  struct Delivery {
    std::string id;
    std::string body;
    int attempts;
  };

  void next() {
    if (busy_ || ended_) return;
    if (queue_.empty()) {
      if (stopping_) end();
      return;
    }
    busy_ = true;
    begin_attempt();
  }

  void begin_attempt() {
    const uint64_t attempt = ++attempt_;
    timer_.expires_after(options_.timeout);
    timer_.async_wait([this, attempt](const error_code& error) {
      if (!error && is_current(attempt)) fail_attempt("no answer in time");
    });
    reused_ = connection_ != nullptr;
    if (reused_) return send(attempt);
    resolving_ = attempt;
    if (std::exchange(looking_up_, true)) return;
    look_up(io_, options_.url,
            [this](const error_code& error, const Endpoints& found) { on_found(error, found); });
  }

  /// What an attempt asked for whose time has passed does for the next one too: one thread at a time looks
  /// up.
  void on_found(const error_code& error, const Endpoints& found) {
    looking_up_ = false;
    if (!is_current(resolving_)) return;
    error ? fail_attempt(error.message()) : connect(resolving_, found);
  }

  [[nodiscard]] bool is_current(uint64_t attempt) const { return attempt == attempt_ && !ended_; }

  [[nodiscard]] bool may_call(const asio::ip::address& address) const {
    return (options_.url.secure && is_public_address(address)) ||
           std::ranges::any_of(options_.private_networks,
                               [&](const AddressRange& range) { return range.contains(address); });
  }

  void connect(uint64_t attempt, const Endpoints& found) {
    std::vector<tcp::endpoint> allowed;
    for (const auto& entry : found) {
      if (may_call(entry.endpoint().address())) allowed.push_back(entry.endpoint());
    }
    if (allowed.empty()) {
      return fail_attempt(
          fmt::format("{} has no address that may be called: public, or in callback.private_networks, "
                      "and without TLS only the latter",
                      options_.url.host));
    }
    ++stats.connections;
    connection_ = std::make_shared<Connection>(tcp::socket(*io_));
    connection_->stream.tcp().async_connect(
        allowed, [this, attempt, held = connection_](const error_code& error, const tcp::endpoint&) {
          if (!is_current(attempt)) return;
          if (error) return fail_attempt(error.message());
          options_.url.secure ? encrypt(attempt) : send(attempt);
        });
  }

  void encrypt(uint64_t attempt) {
    connection_->stream.async_client_handshake(tls_, options_.url.host,
                                               [this, attempt, held = connection_](const error_code& error) {
                                                 if (!is_current(attempt)) return;
                                                 error ? fail_attempt(error.message()) : send(attempt);
                                               });
  }

  void send(uint64_t attempt) {
    const Delivery& delivery = queue_.front();
    auto& request = connection_->request;
    request = {};
    request.version(11);
    request.method(http::verb::post);
    request.target(options_.url.target);
    request.set(http::field::host, options_.url.authority());
    request.set(http::field::user_agent, "tutti");
    request.set(http::field::content_type, "application/json");
    request.set("Tutti-Delivery", delivery.id);
    request.set("Tutti-Signature",
                sign_callback(options_.secret, static_cast<int64_t>(std::time(nullptr)), delivery.body));
    request.body() = delivery.body;
    request.prepare_payload();
    http::async_write(connection_->stream, request,
                      [this, attempt, held = connection_](const error_code& error, size_t) {
                        if (!is_current(attempt)) return;
                        error ? lose_connection(error) : receive(attempt);
                      });
  }

  void receive(uint64_t attempt) {
    auto& parser = connection_->parser;
    parser.emplace();
    parser->body_limit(max_response_bytes);
    http::async_read(connection_->stream, connection_->buffer, *parser,
                     [this, attempt, held = connection_](const error_code& error, size_t) {
                       if (!is_current(attempt)) return;
                       // The status says it, whatever becomes of the body.
                       const bool has_status = held->parser->is_header_done();
                       has_status ? on_response(!error) : lose_connection(error);
                     });
  }

  /// One that was kept may have been closed meanwhile, which is no attempt.
  void lose_connection(const error_code& error) {
    if (!reused_) return fail_attempt(error.message());
    close_connection();
    begin_attempt();
  }

  void on_response(bool is_whole) {
    timer_.cancel();
    const unsigned status = connection_->parser->get().result_int();
    if (!is_whole || !connection_->parser->keep_alive()) close_connection();
    if (status >= 200 && status < 300) {
      ++stats.delivered;
      return finish();
    }
    const std::string why = fmt::format("it answers {}", status);
    may_pass(status) ? try_again(why) : give_up(why);
  }

  void fail_attempt(const std::string& why) {
    close_connection();
    timer_.cancel();
    try_again(why);
  }

  void try_again(const std::string& why) {
    ++attempt_;
    Delivery& delivery = queue_.front();
    if (++delivery.attempts >= options_.attempts) return give_up(why);
    ++stats.retries;
    const auto factor = int64_t{1} << std::min(delivery.attempts - 1, 16);
    const auto delay = std::min(longest_delay, first_delay * factor);
    spdlog::warn("callback: {} is not delivered, {}; again in {} ms", delivery.id, why, delay.count());
    timer_.expires_after(delay);
    timer_.async_wait([this](const error_code& error) {
      if (!error && !ended_) begin_attempt();
    });
  }

  void give_up(const std::string& why) {
    ++stats.failed;
    spdlog::error("callback: {} is given up, {}", queue_.front().id, why);
    finish();
  }

  void finish() {
    ++attempt_;
    queue_.pop_front();
    --stats.waiting;
    dropping_ = false;
    busy_ = false;
    next();
  }

  void close_connection() {
    if (connection_) connection_->stream.close();
    connection_.reset();
  }

  void end() {
    if (std::exchange(ended_, true)) return;
    if (!queue_.empty()) {
      stats.dropped += static_cast<int64_t>(queue_.size());
      stats.waiting -= static_cast<int64_t>(queue_.size());
      spdlog::error("callback: {} messages are dropped with the end, from {} on", queue_.size(),
                    queue_.front().id);
      queue_.clear();
    }
    close_connection();
    timer_.cancel();
    flush_timer_.cancel();
    work_.reset();
  }

  CallbackOptions options_;
  std::shared_ptr<asio::io_context> io_ = std::make_shared<asio::io_context>(1);  // and of a look-up
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::ssl::context tls_{asio::ssl::context::tls_client};
  asio::steady_timer timer_;  // an attempt's deadline, or the delay before it
  asio::steady_timer flush_timer_;
  std::shared_ptr<Connection> connection_;  // null when there is none
  std::deque<Delivery> queue_;
  uint64_t attempt_ = 0;
  uint64_t resolving_ = 0;  // the attempt that waits for the look-up
  bool looking_up_ = false;
  bool busy_ = false;
  bool reused_ = false;
  bool stopping_ = false;
  bool ended_ = false;
  std::atomic<bool> dropping_{false};  // and has said so
  std::thread thread_;
};

CallbackSender::CallbackSender(CallbackOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
CallbackSender::~CallbackSender() { stop(std::chrono::milliseconds(0)); }

void CallbackSender::post(std::string id, std::string body) { impl_->post(std::move(id), std::move(body)); }
void CallbackSender::stop(std::chrono::milliseconds flush) { impl_->stop(flush); }
const CallbackStats& CallbackSender::stats() const { return impl_->stats; }

}  // namespace tutti
