#include "net/ws_session.hpp"

#include <boost/asio/post.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/websocket.hpp>

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>

#include "config/utf8.hpp"
#include "net/event_queue.hpp"
#include "net/hub.hpp"
#include "net/text_pace.hpp"

namespace tutti {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using beast::error_code;
using Clock = std::chrono::steady_clock;

namespace {

// Audio is handed on in slices of at most this, whatever the length of a message.
constexpr size_t read_slice_bytes = 8U << 10U;
// RFC 6455 section 5.5: a control frame has at most 125 bytes, two of which are the close code.
constexpr size_t max_close_reason_bytes = 123;

/// The socket under a WebSocket, which tells when the connection begins to be torn down. When the peer closes
/// or breaks the protocol Beast does that inside a read, waits there for the peer to close too, and has no
/// time-out for it.
struct SessionTransport : Transport {
  explicit SessionTransport(Transport&& transport) : Transport(std::move(transport)) {}
  std::function<void()> on_teardown;
};

template <class Handler>
void async_teardown(beast::role_type role, SessionTransport& transport, Handler&& handler) {
  if (transport.on_teardown) transport.on_teardown();
  transport.async_teardown(role, std::forward<Handler>(handler));
}

/// A WebSocket session. Everything runs on the connection's strand.
///
/// Its watch timer is always pending and holds the session until it is closed; nothing else needs to, in
/// particular not the sink. At most one read, one write, one ping and one close are outstanding.
class WsSession final : public Connection, public std::enable_shared_from_this<WsSession> {
 public:
  WsSession(ConnectionTicket ticket, std::optional<SessionSlot> slot, Transport transport,
            UpgradeRequest upgrade);

  void run();
  void shut_down() override;

  // What the sink asks for, on the strand.
  void send(std::string message, bool is_partial);
  void grant(int64_t bytes);
  void await_results(bool waits);
  void note_audio(double seconds);
  void close(CloseReason code, std::string_view reason);

 private:
  enum class State { handshake, open, closing, closed };

  void configure_socket();
  void accept();
  void on_accept(const error_code& error);

  void read();
  void on_read(const error_code& error, size_t bytes);
  void on_audio(size_t bytes);
  void on_text(size_t bytes);
  void pause_reading(Clock::duration duration);

  void write();
  void on_write(const error_code& error);
  void write_close();

  [[nodiscard]] bool may_idle_out() const;
  void watch();
  void on_watch();
  void ping();

  void report(std::string code, std::string message);
  void end_at_limit(std::string code, std::string message);
  void lose_peer();
  void on_teardown();
  void detach();
  void finish();

  ConnectionTicket ticket_;
  std::optional<SessionSlot> slot_;
  Hub& hub_;
  std::shared_ptr<const NetOptions> options_;
  websocket::stream<SessionTransport, /*deflateSupported=*/false> ws_;
  asio::steady_timer watch_timer_;
  asio::steady_timer pause_timer_;
  UpgradeRequest upgrade_;
  std::unique_ptr<StreamPort> stream_;
  std::unique_ptr<SubscriptionPlace> place_;  // instead of a stream
  State state_ = State::handshake;

  std::array<std::byte, read_slice_bytes> buffer_;
  std::string text_;
  size_t message_bytes_ = 0;  // of the message being read
  int64_t credit_ = 0;
  bool has_audio_in_text_ = false;
  bool reading_ = false;
  bool faulted_ = false;  // reported: what the stream says of it comes, and a close
  bool paused_ = false;
  bool awaits_results_ = false;  // the client, which has nothing to say meanwhile
  TextPace pace_;
  Clock::time_point last_data_;
  Clock::time_point ends_at_ = Clock::time_point::max();  // at the latest

  EventQueue queue_;
  std::string in_flight_;
  bool writing_ = false;
  bool pinging_ = false;
  Clock::time_point next_ping_;

  websocket::close_reason close_reason_;
  bool close_sent_ = false;
  bool torn_down_ = false;
  bool hurried_ = false;  // the close has one deadline, however well the flush goes on
  Clock::time_point close_deadline_;
};

/// The session as its stream sees it. Refers to it weakly, so that a stream that outlives the server's
/// threads keeps no socket open; owns the hub, whose io_context its executor needs.
class Sink final : public SessionSink {
 public:
  Sink(std::shared_ptr<Hub> hub, asio::any_io_executor strand, std::weak_ptr<WsSession> session,
       std::string client, std::string address)
      : hub_(std::move(hub)),
        strand_(std::move(strand)),
        session_(std::move(session)),
        client_(std::move(client)),
        address_(std::move(address)) {}

  // A stream that died without a word must not leave its client waiting.
  ~Sink() override {
    if (!closed_) close(CloseReason::internal, "the stream ended unexpectedly");
  }

  void send(std::string message, bool is_partial) override {
    post([message = std::move(message), is_partial](WsSession& session) mutable {
      session.send(std::move(message), is_partial);
    });
  }
  void grant(int64_t bytes) override {
    post([bytes](WsSession& session) { session.grant(bytes); });
  }
  void await_results(bool waits) override {
    post([waits](WsSession& session) { session.await_results(waits); });
  }
  void close(CloseReason reason, std::string message) override {
    closed_ = true;
    post([reason, message = std::move(message)](WsSession& session) { session.close(reason, message); });
  }
  [[nodiscard]] std::string_view client() const override { return client_; }
  [[nodiscard]] std::string_view address() const override { return address_; }
  void note_audio(double seconds) override {
    post([seconds](WsSession& session) { session.note_audio(seconds); });
  }

 private:
  template <class Action>
  void post(Action action) {
    asio::post(strand_, [session = session_, action = std::move(action)]() mutable {
      if (const auto open = session.lock()) action(*open);
    });
  }

  std::shared_ptr<Hub> hub_;
  asio::any_io_executor strand_;
  std::weak_ptr<WsSession> session_;
  std::string client_;
  std::string address_;
  std::atomic<bool> closed_{false};
};

/// What is kept for a subscriber is sent to it at once.
size_t queue_capacity(const NetOptions& options, const UpgradeRequest& upgrade) {
  const bool subscribes = std::holds_alternative<std::unique_ptr<SubscriptionPlace>>(upgrade.serves);
  return options.max_queued_events + (subscribes ? max_kept_events : 0);
}

WsSession::WsSession(ConnectionTicket ticket, std::optional<SessionSlot> slot, Transport transport,
                     UpgradeRequest upgrade)
    : ticket_(std::move(ticket)),
      slot_(std::move(slot)),
      hub_(ticket_.hub()),
      options_(ticket_.options()),
      ws_(SessionTransport(std::move(transport))),
      watch_timer_(ws_.get_executor()),
      pause_timer_(ws_.get_executor()),
      upgrade_(std::move(upgrade)),
      queue_(queue_capacity(*options_, upgrade_)) {
  if (auto* const place = std::get_if<std::unique_ptr<SubscriptionPlace>>(&upgrade_.serves)) {
    place_ = std::move(*place);
  } else {
    has_audio_in_text_ = std::get<SessionRequest>(upgrade_.serves).dialect->has_audio_in_text();
  }
}

void WsSession::run() {
  ticket_.assign(weak_from_this());
  asio::post(ws_.get_executor(), [self = shared_from_this()] { self->accept(); });
}

void WsSession::shut_down() {
  asio::post(ws_.get_executor(), [self = shared_from_this()] {
    if (self->state_ == State::handshake) return self->finish();
    self->hurried_ = true;
    self->detach();
    self->close(CloseReason::going_away, "the server is stopping");
  });
}

void WsSession::configure_socket() {
  auto& socket = ws_.next_layer().tcp().socket();
  error_code ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  // A peer that vanished without a word acknowledges nothing: the pings of a session that is not reading then
  // end in an error instead of filling the socket's buffer.
  const auto timeout = static_cast<unsigned>(options_->idle_timeout.count());
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
}

void WsSession::accept() {
  if (state_ != State::handshake) return;
  configure_socket();
  ws_.next_layer().tcp().expires_never();
  websocket::stream_base::timeout timeout{};
  timeout.handshake_timeout = options_->handshake_timeout;
  timeout.idle_timeout = websocket::stream_base::none();
  ws_.set_option(timeout);
  ws_.set_option(websocket::stream_base::decorator(
      [name = options_->server_name, subprotocol = std::move(upgrade_.subprotocol),
       headers = std::move(upgrade_.headers)](websocket::response_type& response) {
        response.set(beast::http::field::server, name);
        if (!subprotocol.empty()) response.set(beast::http::field::sec_websocket_protocol, subprotocol);
        for (const auto& [header, value] : headers) response.insert(header, value);
      }));
  // The cap is this session's own, which tells the client why before it closes.
  ws_.read_message_max(0);
  ws_.auto_fragment(false);
  ws_.text(true);
  ws_.async_accept(upgrade_.request,
                   [self = shared_from_this()](const error_code& error) { self->on_accept(error); });
}

void WsSession::on_accept(const error_code& error) {
  if (state_ != State::handshake) return;
  if (error) {
    ++hub_.stats.bad_http_requests;
    return finish();
  }
  ++(place_ ? hub_.stats.subscriptions : hub_.stats.sessions);
  state_ = State::open;
  upgrade_.request = {};
  // By plain pointer: the transport is this session's, and so are its operations.
  ws_.next_layer().on_teardown = [this] { on_teardown(); };
  last_data_ = Clock::now();
  next_ping_ = last_data_ + options_->ping_interval;
  watch();
  if (options_->max_stream > Clock::duration::zero()) ends_at_ = last_data_ + options_->max_stream;
  auto sink = std::make_shared<Sink>(ticket_.shared_hub(), ws_.get_executor(), weak_from_this(),
                                     upgrade_.visit.client(), std::move(upgrade_.address));
  if (!place_) {
    stream_ = hub_.gateway.open_stream(std::move(std::get<SessionRequest>(upgrade_.serves)), std::move(sink));
    return;
  }
  place_->start(std::move(sink));
  // Whatever it says is read and has no effect, so that its pings are answered.
  credit_ = read_slice_bytes;
  read();
}

void WsSession::read() {
  if (state_ != State::open || reading_ || paused_ || faulted_ || credit_ <= 0) return;
  reading_ = true;
  const auto most = static_cast<size_t>(std::min<int64_t>(credit_, read_slice_bytes));
  ws_.async_read_some(
      asio::buffer(buffer_.data(), most),
      [self = shared_from_this()](const error_code& error, size_t bytes) { self->on_read(error, bytes); });
}

void WsSession::on_read(const error_code& error, size_t bytes) {
  reading_ = false;
  if (error && torn_down_) return finish();
  // While closing, what still comes in is discarded and the close ends the session.
  if (state_ != State::open) return;
  if (error) return lose_peer();
  if (faulted_) return;
  last_data_ = Clock::now();
  message_bytes_ += bytes;
  if (message_bytes_ > options_->max_message_bytes) {
    ++hub_.stats.oversized_messages;
    return report("message_too_long",
                  fmt::format("a message may have {} bytes; send the audio in shorter ones",
                              options_->max_message_bytes));
  }
  if (ws_.got_binary()) {
    on_audio(bytes);
  } else {
    on_text(bytes);
  }
  if (ws_.is_message_done()) message_bytes_ = 0;
  read();
}

void WsSession::on_audio(size_t bytes) {
  const bool ends_message = ws_.is_message_done();
  if (place_ || (bytes == 0 && !ends_message)) return;
  credit_ -= static_cast<int64_t>(bytes);
  hub_.stats.audio_bytes += static_cast<int64_t>(bytes);
  if (credit_ <= 0) ++hub_.stats.read_stalls;
  if (stream_)
    stream_->on_audio({buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(bytes)}, ends_message);
}

void WsSession::on_text(size_t bytes) {
  text_.append(reinterpret_cast<const char*>(buffer_.data()), bytes);
  if (!ws_.is_message_done()) return;
  ++hub_.stats.text_messages;
  if (has_audio_in_text_) {
    // At its end: a message may be longer than the credit, and has no effect before.
    const auto size = static_cast<int64_t>(text_.size());
    credit_ -= size;
    hub_.stats.audio_bytes += size;
    if (credit_ <= 0) ++hub_.stats.read_stalls;
  } else if (const auto pause = pace_.note(last_data_); pause > Clock::duration::zero()) {
    pause_reading(pause);
  }
  if (stream_) stream_->on_text(std::move(text_));
  text_.clear();
}

void WsSession::pause_reading(Clock::duration duration) {
  paused_ = true;
  pause_timer_.expires_after(duration);
  pause_timer_.async_wait([self = shared_from_this()](const error_code&) {
    self->paused_ = false;
    self->read();
  });
}

void WsSession::grant(int64_t bytes) {
  credit_ += bytes;
  // What it sent is only being recognized now: the client is not to blame for the time that it waits.
  last_data_ = Clock::now();
  read();
}

void WsSession::await_results(bool waits) {
  awaits_results_ = waits;
  last_data_ = Clock::now();
}

void WsSession::note_audio(double seconds) {
  if (state_ != State::open || faulted_) return;
  upgrade_.visit.note_audio(std::chrono::milliseconds(std::llround(seconds * 1000)),
                            [session = weak_from_this(), strand = ws_.get_executor()] {
                              asio::post(strand, [session] {
                                if (const auto open = session.lock()) {
                                  open->end_at_limit(
                                      "audio_limit",
                                      "the minutes of audio that this key may have today are used up");
                                }
                              });
                            });
}

/// What was sent is recognized to its end first.
void WsSession::end_at_limit(std::string code, std::string message) {
  if (state_ != State::open || faulted_) return;
  ++hub_.stats.ended_sessions;
  report(std::move(code), std::move(message));
}

void WsSession::send(std::string message, bool is_partial) {
  if (state_ != State::open || message.empty()) return;
  last_data_ = Clock::now();  // who is told something, after its eof too, waits for what comes next
  switch (queue_.push(std::move(message), is_partial)) {
    case EventQueue::Outcome::queued:
      break;
    case EventQueue::Outcome::superseded:
      ++hub_.stats.superseded_partials;
      break;
    case EventQueue::Outcome::overflow:
      ++(place_ ? hub_.stats.slow_subscribers : hub_.stats.slow_readers);
      detach();
      return close(CloseReason::policy,
                   fmt::format("too slow a reader: {} results are waiting", queue_.size()));
  }
  write();
}

void WsSession::write() {
  if (state_ == State::closed || writing_) return;
  if (queue_.empty()) {
    if (state_ == State::closing) write_close();
    return;
  }
  writing_ = true;
  in_flight_ = queue_.pop();
  ws_.async_write(asio::buffer(in_flight_),
                  [self = shared_from_this()](const error_code& error, size_t) { self->on_write(error); });
}

void WsSession::on_write(const error_code& error) {
  writing_ = false;
  if (state_ == State::closed) return;
  if (error) return lose_peer();
  ++hub_.stats.events_sent;
  if (state_ == State::closing && !hurried_) close_deadline_ = Clock::now() + options_->close_timeout;
  write();
}

void WsSession::close(CloseReason code, std::string_view reason) {
  if (state_ != State::open) return;
  state_ = State::closing;
  place_.reset();
  close_reason_.code = static_cast<uint16_t>(code);
  close_reason_.reason = utf8_prefix(reason, max_close_reason_bytes);
  close_deadline_ = Clock::now() + options_->close_timeout;
  watch_timer_.cancel();
  write();
}

void WsSession::write_close() {
  if (std::exchange(close_sent_, true)) return;
  ws_.async_close(close_reason_, [self = shared_from_this()](const error_code&) { self->finish(); });
}

/// Who only listens is silent by nature, and who has said all waits for its results.
bool WsSession::may_idle_out() const {
  return state_ == State::open && reading_ && !faulted_ && !place_ && !awaits_results_;
}

/// Sleeps until the earliest of what may fall due.
void WsSession::watch() {
  auto due = state_ == State::closing ? close_deadline_ : next_ping_;
  if (may_idle_out()) due = std::min(due, last_data_ + options_->idle_timeout);
  if (state_ == State::open && !faulted_) due = std::min(due, ends_at_);
  watch_timer_.expires_at(due);
  watch_timer_.async_wait([self = shared_from_this()](const error_code&) { self->on_watch(); });
}

void WsSession::on_watch() {
  const auto now = Clock::now();
  if (state_ == State::closing && now >= close_deadline_) return finish();
  if (may_idle_out() && now >= last_data_ + options_->idle_timeout) {
    ++hub_.stats.idle_sessions;
    report("idle_timeout",
           fmt::format("no message for {} s; send {{\"type\":\"keepalive\"}} when there is no audio",
                       std::chrono::duration<double>(options_->idle_timeout).count()));
  } else if (state_ == State::open && !faulted_ && now >= ends_at_) {
    end_at_limit("stream_too_long", fmt::format("a session may be open for {} s; begin another one",
                                                std::chrono::duration<double>(options_->max_stream).count()));
  } else if (state_ == State::open && now >= next_ping_) {
    ping();
  }
  if (state_ != State::closed) watch();
}

/// Nothing else notices a peer that vanished while the session is not reading.
void WsSession::ping() {
  next_ping_ = Clock::now() + options_->ping_interval;
  if (std::exchange(pinging_, true)) return;
  ws_.async_ping({}, [self = shared_from_this()](const error_code& error) {
    self->pinging_ = false;
    if (error && self->state_ == State::open) self->lose_peer();
  });
}

/// Ends the session from this side: its stream knows how the client is told, and closes.
void WsSession::report(std::string code, std::string message) {
  faulted_ = true;
  if (const auto stream = std::exchange(stream_, nullptr)) {
    stream->on_fault({std::move(code), std::move(message)});
  } else if (place_) {
    close(proto::close_reason(code), message);
  }
}

void WsSession::lose_peer() {
  if (state_ == State::open) ++hub_.stats.vanished_peers;
  finish();
}

/// The stream is let go when the peer closes, not when the peer's socket is gone.
void WsSession::on_teardown() {
  torn_down_ = true;
  if (state_ != State::open) return;
  detach();
  state_ = State::closing;
  close_sent_ = true;
  close_deadline_ = Clock::now() + options_->close_timeout;
  watch_timer_.cancel();
}

void WsSession::detach() {
  if (const auto stream = std::exchange(stream_, nullptr)) stream->on_closed();
  place_.reset();
}

void WsSession::finish() {
  if (std::exchange(state_, State::closed) == State::closed) return;
  detach();
  ws_.next_layer().close();
  watch_timer_.cancel();
  pause_timer_.cancel();
}

}  // namespace

void start_ws_session(ConnectionTicket ticket, std::optional<SessionSlot> slot, Transport transport,
                      UpgradeRequest upgrade) {
  std::make_shared<WsSession>(std::move(ticket), std::move(slot), std::move(transport), std::move(upgrade))
      ->run();
}

}  // namespace tutti
