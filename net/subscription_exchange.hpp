#pragma once

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "net/event_queue.hpp"
#include "net/hub.hpp"
#include "net/streamed_reply.hpp"
#include "net/transport.hpp"
#include "proto/native.hpp"
#include "proto/subscription.hpp"

namespace tutti {

/// The answer to one GET of a stream's events: server-sent events for as long as the stream lasts. The
/// connection's stream and buffer are owned by `session`; everything runs on the connection's strand.
///
/// All the time a read is outstanding, which notices that the client has gone; a comment now and then makes
/// sure of it, and keeps proxies from closing a silent connection.
class SubscriptionExchange final : public SessionSink,
                                   public std::enable_shared_from_this<SubscriptionExchange> {
 public:
  using Buffer = boost::beast::flat_buffer;
  /// Whether the connection can serve another request; else it is broken.
  using Done = std::function<void(bool keep_alive)>;

  SubscriptionExchange(std::shared_ptr<void> session, std::shared_ptr<Hub> hub,
                       std::shared_ptr<const NetOptions> options, Transport& stream, Buffer& buffer,
                       std::unique_ptr<SubscriptionPlace> place, StreamedReply reply, Done done)
      : hub_(std::move(hub)),
        options_(std::move(options)),
        session_(std::move(session)),
        stream_(stream),
        executor_(stream.get_executor()),
        keep_alive_timer_(executor_),
        buffer_(buffer),
        place_(std::move(place)),
        reply_(std::move(reply)),
        queue_(options_->max_queued_events + max_kept_events),
        done_(std::move(done)) {}

  void start() {
    ++hub_->stats.subscriptions;
    // The second header is for nginx, which would hold events back until it has a page of them.
    out_ = reply_.begin({.status = 200,
                         .content_type = "text/event-stream",
                         .content_length = {},
                         .headers = {{"X-Accel-Buffering", "no"}}},
                        "OK", options_->server_name);
    out_ += reply_.piece(proto::event_stream_retry(reconnect_after));
    write();
    watch();
    keep_alive(options_->ping_interval);
    place_->start(shared_from_this());
  }

  /// Sends what waits, and ends: the server does. On the strand.
  void shut_down() { end(); }

  // The sink, called from anywhere.
  void send(std::string message, bool is_partial) override {
    post(
        [this, message = std::move(message), is_partial]() mutable { push(std::move(message), is_partial); });
  }
  void grant(int64_t /*bytes*/) override {}
  void close(CloseReason reason, std::string message) override {
    post([this, reason, message = std::move(message)] {
      if (reason != CloseReason::normal) queue_last("closed", message);
      end();
    });
  }

 private:
  using error_code = boost::beast::error_code;

  static constexpr std::chrono::milliseconds reconnect_after{2000};
  static constexpr size_t watch_bytes = 4096;

  auto self() { return shared_from_this(); }
  boost::beast::tcp_stream& socket() { return stream_.tcp(); }

  template <class Action>
  void post(Action action) {
    boost::asio::post(executor_, [self = self(), action = std::move(action)]() mutable {
      if (!self->finished_ && !self->ended_) action();
    });
  }

  void push(std::string message, bool is_partial) {
    switch (queue_.push(std::move(message), is_partial)) {
      case EventQueue::Outcome::queued:
        break;
      case EventQueue::Outcome::superseded:
        ++hub_->stats.superseded_partials;
        break;
      case EventQueue::Outcome::overflow:
        ++hub_->stats.slow_subscribers;
        queue_last("too_slow", "too slow a reader: its queue is full; what follows was not sent");
        return end();
    }
    flush();
  }

  /// Behind all else: an error, without a place in the session's events.
  void queue_last(std::string code, std::string message) {
    last_ = proto::write_subscriber_message(
        proto::SubscriberForm::event_stream, "error",
        proto::write_event(proto::ErrorEvent{.error = {std::move(code), std::move(message)}, .fatal = true},
                           proto::OutputFormat::json),
        std::nullopt);
  }

  void end() {
    if (std::exchange(ended_, true)) return;
    place_.reset();
    // It has one deadline for all that waits.
    keep_alive(options_->close_timeout);
    flush();
  }

  void keep_alive(std::chrono::milliseconds delay) {
    keep_alive_timer_.expires_after(delay);
    keep_alive_timer_.async_wait([self = self()](const error_code& error) {
      // One that was set anew may have expired before.
      const bool is_early = self->keep_alive_timer_.expiry() > std::chrono::steady_clock::now();
      if (error || is_early || self->finished_) return;
      if (self->ended_) return self->finish(false);
      if (!self->writing_) {
        self->out_ = self->reply_.piece(proto::event_stream_keep_alive);
        self->write();
      }
      self->keep_alive(self->options_->ping_interval);
    });
  }

  void flush() {
    if (writing_ || finished_) return;
    if (!queue_.empty()) {
      out_ = reply_.piece(queue_.pop());
      ++hub_->stats.events_sent;
    } else if (!last_.empty()) {
      out_ = reply_.piece(std::exchange(last_, {}));
    } else if (ended_ && !wrote_end_) {
      wrote_end_ = true;
      out_ = reply_.end();
      if (out_.empty()) return finish(reply_.keep_alive());
    } else {
      if (ended_) finish(reply_.keep_alive());
      return;
    }
    write();
  }

  void write() {
    writing_ = true;
    socket().expires_after(options_->idle_timeout);
    boost::asio::async_write(stream_, boost::asio::buffer(out_),
                             [self = self()](const error_code& error, size_t) { self->on_write(error); });
  }

  void on_write(const error_code& error) {
    writing_ = false;
    if (finished_) return leave();
    if (error) return break_off(error);
    flush();
  }

  void watch() {
    const size_t room = std::min(watch_bytes, buffer_.max_size() - buffer_.size());
    if (room == 0) return;  // it sends on without waiting for the end: it is there
    watching_ = true;
    socket().expires_never();
    stream_.async_read_some(buffer_.prepare(room), [self = self()](const error_code& error, size_t bytes) {
      self->on_watch(error, bytes);
    });
  }

  void on_watch(const error_code& error, size_t bytes) {
    watching_ = false;
    buffer_.commit(bytes);
    if (finished_) return leave();
    if (error) return break_off(error);
    watch();
  }

  void break_off(const error_code& error) {
    if (!ended_ && error != boost::asio::error::operation_aborted) ++hub_->stats.vanished_peers;
    finish(false);
  }

  void finish(bool keep_alive) {
    if (std::exchange(finished_, true)) return;
    keep_alive_connection_ = keep_alive;
    place_.reset();
    keep_alive_timer_.cancel();
    if (watching_ || writing_) socket().cancel();
    leave();
  }

  /// Hands the connection back once nothing of this is outstanding on it.
  void leave() {
    if (watching_ || writing_ || !done_) return;
    const auto session = std::move(session_);
    std::exchange(done_, {})(keep_alive_connection_);
  }

  std::shared_ptr<Hub> hub_;  // whose io_context the executor needs, however long the sink is held
  std::shared_ptr<const NetOptions> options_;
  std::shared_ptr<void> session_;  // until the connection is handed back
  Transport& stream_;
  Transport::executor_type executor_;
  boost::asio::steady_timer keep_alive_timer_;
  Buffer& buffer_;
  std::unique_ptr<SubscriptionPlace> place_;
  StreamedReply reply_;
  EventQueue queue_;
  Done done_;

  std::string out_;   // being written
  std::string last_;  // after all that is queued
  bool writing_ = false;
  bool watching_ = false;
  bool wrote_end_ = false;
  bool ended_ = false;     // by the sink, or for its slowness
  bool finished_ = false;  // altogether
  bool keep_alive_connection_ = false;
};

}  // namespace tutti
