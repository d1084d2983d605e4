#pragma once

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "net/hub.hpp"
#include "net/routes.hpp"
#include "net/streamed_reply.hpp"
#include "net/transport.hpp"

namespace tutti {

/// One POST to transcriptions_path: receives the body, with its caps, and passes the reply on as it is made,
/// with `headers` added.
/// A client that goes away cancels it. The connection's stream and buffer are owned by `session`; everything
/// runs on the connection's strand.
///
/// While the reply is awaited a read is outstanding, which notices that the client has gone, and keeps what
/// it may have sent of its next request.
class UploadExchange final : public UploadSink, public std::enable_shared_from_this<UploadExchange> {
 public:
  using Buffer = boost::beast::flat_buffer;
  using HeaderParser = boost::beast::http::request_parser<boost::beast::http::empty_body>;
  /// How it came to its end.
  struct Outcome {
    std::optional<HttpReply> refusal;  ///< still to be sent; the body is not read, or not all of it
    bool keep_alive = false;           ///< the connection can serve another request
    bool broken = false;               ///< or nothing more at all
  };
  using Done = std::function<void(Outcome)>;

  UploadExchange(std::shared_ptr<void> session, Hub& hub, const NetOptions& options, Transport& stream,
                 Buffer& buffer, HeaderParser&& header, proto::Headers headers, const Visit& visit, Done done)
      : session_(std::move(session)),
        hub_(hub),
        options_(options),
        stream_(stream),
        executor_(stream.get_executor()),
        buffer_(buffer),
        parser_(std::move(header)),
        reply_(parser_.get().version() < 11, parser_.keep_alive(), std::move(headers)),
        visit_(visit),
        done_(std::move(done)) {}

  void start() {
    if (too_large()) return refuse(too_large_reply());
    if (const auto refusal = hub_.status.refusal(upload_label)) return refuse(no_stream_reply(*refusal));
    place_ = hub_.uploads.take_place();
    if (!place_) return refuse(no_place_reply());
    parser_.body_limit(options_.max_upload_bytes);
    started_ = Clock::now();
    if (expects_continue()) return write_continue();
    read_body();
  }

  // The sink, called from anywhere.
  void begin(ReplyHead head) override {
    post([this, head = std::move(head)] {
      const auto reason =
          boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(head.status));
      send(reply_.begin(head, {reason.data(), reason.size()}, options_.server_name), 0);
    });
  }
  void write(std::string piece) override {
    post([this, piece = std::move(piece)] { send(reply_.piece(piece), piece.size()); });
  }
  void end() override {
    post([this] {
      ended_ = true;
      send(reply_.end(), 0);
    });
  }
  /// A file that was begun is transcribed to its end.
  void note_audio(double seconds) override {
    post([this, seconds] {
      visit_.note_audio(std::chrono::milliseconds(std::llround(seconds * 1000)), [] {});
    });
  }

 private:
  using Clock = std::chrono::steady_clock;
  using error_code = boost::beast::error_code;

  // A body must arrive at this speed, over idle_timeout and on: a place is not held by trickling bytes.
  static constexpr int64_t slowest_bytes_per_second = 4096;
  static constexpr size_t watch_bytes = 4096;

  auto self() { return shared_from_this(); }
  boost::beast::tcp_stream& socket() { return stream_.tcp(); }

  template <class Action>
  void post(Action action) {
    boost::asio::post(executor_, [self = self(), action = std::move(action)]() mutable {
      if (!self->finished_) action();
    });
  }

  [[nodiscard]] bool too_large() const {
    const auto length = parser_.content_length();
    return length && *length > options_.max_upload_bytes;
  }

  [[nodiscard]] HttpReply too_large_reply() const {
    return api_error_reply(
        {.status = 413,
         .code = "upload_too_large",
         .message = fmt::format("the request's body is longer than the {} bytes that this server "
                                "takes (server.max_upload_bytes); send the audio in parts or as "
                                "FLAC, Ogg or MP3",
                                options_.max_upload_bytes),
         .param = "file"});
  }

  [[nodiscard]] static HttpReply no_place_reply() {
    return try_again_later(
        api_error_reply({.status = 429,
                         .code = "too_many_uploads",
                         .message = "all the files this server takes at a time are being transcribed; try "
                                    "again later",
                         .param = {}}));
  }

  [[nodiscard]] static HttpReply no_stream_reply(const Error& error) {
    return try_again_later(
        api_error_reply({.status = 503, .code = error.code, .message = error.message, .param = {}}));
  }

  [[nodiscard]] bool expects_continue() const {
    const auto& header = parser_.get();
    return header.version() >= 11 &&
           boost::beast::iequals(header[boost::beast::http::field::expect], "100-continue");
  }

  void write_continue() {
    out_ = "HTTP/1.1 100 Continue\r\n\r\n";
    socket().expires_after(options_.handshake_timeout);
    boost::asio::async_write(stream_, boost::asio::buffer(out_),
                             [self = self()](const error_code& error, size_t) {
                               self->out_.clear();
                               if (error) return self->break_off();
                               self->read_body();
                             });
  }

  void read_body() {
    if (parser_.is_done()) return start_upload();
    const auto earned = std::chrono::milliseconds(received_ * 1000 / slowest_bytes_per_second);
    socket().expires_at(started_ + options_.idle_timeout + earned);
    boost::beast::http::async_read_some(
        stream_, buffer_, parser_,
        [self = self()](const error_code& error, size_t bytes) { self->on_body(error, bytes); });
  }

  void on_body(const error_code& error, size_t bytes) {
    received_ += static_cast<int64_t>(bytes);
    hub_.stats.upload_bytes += static_cast<int64_t>(bytes);
    if (!error) return read_body();
    if (error == boost::beast::http::error::body_limit) return refuse(too_large_reply());
    break_off();
  }

  void start_upload() {
    auto& request = parser_.get();
    const std::string_view target(request.target().data(), request.target().size());
    const auto type = request[boost::beast::http::field::content_type];
    UploadRequest upload{.content_type = std::string(type.data(), type.size()),
                         .query = std::string(split_target(target).query),
                         .body = std::move(request.body())};
    place_->start(std::move(upload), self());
    watch();
  }

  void watch() {
    const size_t room = std::min(watch_bytes, buffer_.max_size() - buffer_.size());
    if (room == 0) return;  // it sends on without waiting for the reply: it is there
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
    if (error) return break_off();
    watch();
  }

  void send(std::string bytes, size_t content_bytes) {
    waiting_ += bytes;
    waiting_content_ += content_bytes;
    flush();
  }

  void flush() {
    if (writing_) return;
    if (waiting_.empty()) {
      if (ended_) finish({.refusal = {}, .keep_alive = reply_.keep_alive(), .broken = false});
      return;
    }
    writing_ = true;
    out_ = std::exchange(waiting_, {});
    const size_t content = std::exchange(waiting_content_, 0);
    socket().expires_after(options_.idle_timeout);
    boost::asio::async_write(
        stream_, boost::asio::buffer(out_),
        [self = self(), content](const error_code& error, size_t) { self->on_write(error, content); });
  }

  void on_write(const error_code& error, size_t content) {
    writing_ = false;
    if (finished_) return leave();
    if (error) return break_off();
    place_->on_written(content);
    flush();
  }

  void refuse(HttpReply reply) {
    ++hub_.stats.refused_uploads;
    finish({.refusal = std::move(reply), .keep_alive = false, .broken = false});
  }
  void break_off() { finish({.refusal = {}, .keep_alive = false, .broken = true}); }

  void finish(Outcome outcome) {
    if (finished_) return;
    finished_ = true;
    place_.reset();
    outcome_ = std::move(outcome);
    if (watching_ || writing_) socket().cancel();
    leave();
  }

  /// Hands the connection back once nothing of this is outstanding on it.
  void leave() {
    if (watching_ || writing_ || !done_) return;
    std::exchange(done_, {})(std::move(outcome_));
  }

  std::shared_ptr<void> session_;
  Hub& hub_;
  const NetOptions& options_;  // of the session
  Transport& stream_;
  Transport::executor_type executor_;
  Buffer& buffer_;
  boost::beast::http::request_parser<boost::beast::http::string_body> parser_;
  StreamedReply reply_;
  const Visit& visit_;  // of the session, until it has the connection back
  Done done_;
  std::unique_ptr<UploadPlace> place_;
  Clock::time_point started_;
  int64_t received_ = 0;
  Outcome outcome_;

  std::string out_;             // being written
  std::string waiting_;         // for that
  size_t waiting_content_ = 0;  // of the sink's bytes in it
  bool writing_ = false;
  bool watching_ = false;
  bool ended_ = false;     // by the sink
  bool finished_ = false;  // altogether
};

}  // namespace tutti
