#include "net/audiosocket_session.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/log_line.hpp"
#include "net/hub.hpp"
#include "net/session_id.hpp"
#include "proto/audiosocket.hpp"

namespace tutti {
namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// Audio is handed on in slices of at most this.
constexpr size_t read_slice_bytes = 8U << 10U;

/// Everything runs on the connection's strand. A pending read holds the session; without one, for want of
/// credit, its sink does.
class AudioSocketSession final : public Connection, public std::enable_shared_from_this<AudioSocketSession> {
 public:
  AudioSocketSession(ConnectionTicket ticket, SessionSlot slot, asio::ip::tcp::socket socket)
      : ticket_(std::move(ticket)),
        slot_(std::move(slot)),
        hub_(ticket_.hub()),
        options_(ticket_.options()),
        socket_(std::move(socket)),
        silence_(socket_.get_executor()),
        end_(socket_.get_executor()),
        name_(make_session_id()) {}

  void run();
  void shut_down() override {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->finish(); });
  }

  // What the sink asks for, on the strand.
  void grant(int64_t bytes) {
    credit_ += bytes;
    read();
  }
  void close(CloseReason code, const std::string& reason) {
    if (code != CloseReason::normal && !closed_)
      spdlog::warn("{}AudioSocket closed: {}", about(name_), reason);
    finish();
  }

  [[nodiscard]] asio::any_io_executor strand() { return socket_.get_executor(); }
  [[nodiscard]] std::string peer() const {
    error_code gone;
    const auto endpoint = socket_.remote_endpoint(gone);
    return gone ? std::string() : endpoint.address().to_string();
  }

 private:
  void open();
  void read();
  void on_read(const error_code& error, size_t bytes);
  void on_silence();
  void end_at_limit();
  void finish();

  ConnectionTicket ticket_;
  SessionSlot slot_;
  Hub& hub_;
  std::shared_ptr<const NetOptions> options_;
  asio::ip::tcp::socket socket_;
  asio::steady_timer silence_;  // how long a read may take
  asio::steady_timer end_;      // how long the session
  std::string name_;
  std::unique_ptr<StreamPort> port_;
  std::array<std::byte, read_slice_bytes> buffer_;
  int64_t credit_ = 0;
  bool has_heard_ = false;  // anything at all
  bool reading_ = false;
  bool closed_ = false;
};

/// The session as its stream sees it. What it posts refers to the session weakly: the session owns the hub,
/// whose io_context would otherwise own it in turn.
class Sink final : public SessionSink {
 public:
  explicit Sink(std::shared_ptr<AudioSocketSession> session)
      : session_(std::move(session)), strand_(session_->strand()), address_(session_->peer()) {}
  ~Sink() override { Sink::close(CloseReason::normal, {}); }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  void send(std::string /*message*/, bool /*is_partial*/) override {}  // there is no way back
  [[nodiscard]] std::string_view address() const override { return address_; }
  void grant(int64_t bytes) override {
    post([bytes](AudioSocketSession& session) { session.grant(bytes); });
  }
  void close(CloseReason reason, std::string message) override {
    post([reason, message = std::move(message)](AudioSocketSession& session) {
      session.close(reason, message);
    });
  }

 private:
  template <class Action>
  void post(Action action) {
    asio::post(strand_, [session = std::weak_ptr(session_), action = std::move(action)] {
      if (const auto open = session.lock()) action(*open);
    });
  }

  std::shared_ptr<AudioSocketSession> session_;
  asio::any_io_executor strand_;
  std::string address_;
};

void AudioSocketSession::run() {
  ticket_.assign(weak_from_this());
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->open(); });
}

void AudioSocketSession::open() {
  if (closed_) return;
  ++hub_.stats.sessions;
  if (options_->max_stream > std::chrono::milliseconds::zero()) {
    end_.expires_after(options_->max_stream);
    end_.async_wait([self = weak_from_this()](const error_code& cancelled) {
      if (const auto open = self.lock(); open && !cancelled) open->end_at_limit();
    });
  }
  port_ = hub_.gateway.open_stream(
      {.session = name_, .dialect_name = "audiosocket", .dialect = proto::make_audiosocket()},
      std::make_shared<Sink>(shared_from_this()));
}

void AudioSocketSession::read() {
  if (closed_ || reading_ || credit_ <= 0) return;
  reading_ = true;
  const auto most = static_cast<size_t>(std::min<int64_t>(credit_, read_slice_bytes));
  // Who connects says at once which call it is about.
  silence_.expires_after(has_heard_ ? options_->idle_timeout : options_->handshake_timeout);
  silence_.async_wait([self = shared_from_this()](const error_code& cancelled) {
    if (!cancelled) self->on_silence();
  });
  socket_.async_read_some(
      asio::buffer(buffer_.data(), most),
      [self = shared_from_this()](const error_code& error, size_t bytes) { self->on_read(error, bytes); });
}

void AudioSocketSession::on_read(const error_code& error, size_t bytes) {
  reading_ = false;
  silence_.cancel();
  if (closed_) return;
  // However the connection ended, what was said before is recognized to its end.
  if (error) return finish();
  has_heard_ = true;
  credit_ -= static_cast<int64_t>(bytes);
  hub_.stats.audio_bytes += static_cast<int64_t>(bytes);
  if (credit_ <= 0) ++hub_.stats.read_stalls;
  port_->on_audio({buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(bytes)});
  read();
}

void AudioSocketSession::on_silence() {
  // It may have been waiting behind a read that came just in time.
  if (closed_ || !reading_ || silence_.expiry() > std::chrono::steady_clock::now()) return;
  ++hub_.stats.idle_sessions;
  finish();
}

void AudioSocketSession::end_at_limit() {
  if (closed_) return;
  ++hub_.stats.ended_sessions;
  spdlog::info("{}AudioSocket closed: it was open for as long as a session may be", about(name_));
  finish();
}

void AudioSocketSession::finish() {
  if (std::exchange(closed_, true)) return;
  end_.cancel();
  if (const auto port = std::exchange(port_, nullptr)) port->on_closed();
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace

void start_audiosocket_session(ConnectionTicket ticket, SessionSlot slot, asio::ip::tcp::socket socket) {
  std::make_shared<AudioSocketSession>(std::move(ticket), std::move(slot), std::move(socket))->run();
}

}  // namespace tutti
