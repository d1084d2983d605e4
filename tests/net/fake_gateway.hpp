#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "actors/ports.hpp"
#include "net/server.hpp"

namespace tutti {

/// FNV-1a, continued from `hash`.
inline uint64_t hash_bytes(const void* data, size_t size, uint64_t hash = 14695981039346656037U) {
  for (size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<const uint8_t*>(data)[i]) * 1099511628211U;
  return hash;
}

/// What a test sees of one stream, from its own thread.
struct StreamProbe {
  SessionRequest request;
  proto::StreamRequest asked;  // of its first track
  std::shared_ptr<SessionSink> sink;
  std::atomic<int64_t> audio_bytes{0};
  std::atomic<int64_t> largest_slice{0};
  std::atomic<uint64_t> audio_hash{hash_bytes(nullptr, 0)};
  std::atomic<int> audio_messages{0};
  std::atomic<int> texts{0};
  std::atomic<int> closed{0};
};

/// Answers each text with "echo TEXT"; everything else is up to the test, through the probe.
class FakeGateway final : public GatewayPort {
 public:
  std::unique_ptr<StreamPort> open_stream(SessionRequest request,
                                          std::shared_ptr<SessionSink> sink) override {
    auto probe = std::make_shared<StreamProbe>();
    probe->request = std::move(request);
    probe->sink = std::move(sink);
    proto::Actions actions;
    probe->request.dialect->on_open(actions);
    if (const auto* open = actions.empty() ? nullptr : std::get_if<proto::OpenTrack>(&actions.front())) {
      probe->asked = open->request;
    }
    if (initial_credit > 0) probe->sink->grant(initial_credit);
    opened_.at(open_count_++).set_value(probe);
    return std::make_unique<Stream>(probe);
  }

  /// The next stream that was, or will be, opened.
  [[nodiscard]] std::shared_ptr<StreamProbe> next() {
    auto future = opened_.at(next_++).get_future();
    if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
      throw std::runtime_error("no stream was opened");
    }
    return future.get();
  }

  int64_t initial_credit = 1 << 20;

 private:
  class Stream final : public StreamPort {
   public:
    explicit Stream(std::shared_ptr<StreamProbe> probe) : probe_(std::move(probe)) {}
    void on_audio(std::vector<std::byte> bytes, bool ends_message) override {
      if (ends_message) ++probe_->audio_messages;
      probe_->audio_hash = hash_bytes(bytes.data(), bytes.size(), probe_->audio_hash);
      const auto size = static_cast<int64_t>(bytes.size());
      if (size > probe_->largest_slice) probe_->largest_slice = size;
      probe_->audio_bytes += size;
    }
    void on_text(std::string message) override {
      ++probe_->texts;
      probe_->sink->send("echo " + message, false);
    }
    void on_fault(Error error) override {
      ++probe_->closed;
      proto::Actions actions;
      probe_->request.dialect->on_fault(error, actions);
      for (const proto::Action& action : actions) {
        if (const auto* reply = std::get_if<proto::Reply>(&action)) probe_->sink->send(reply->text, false);
      }
      probe_->sink->close(proto::close_reason(error.code), error.message);
    }
    void on_closed() override { ++probe_->closed; }

   private:
    std::shared_ptr<StreamProbe> probe_;
  };

  std::array<std::promise<std::shared_ptr<StreamProbe>>, 512> opened_;
  std::atomic<size_t> open_count_{0};
  size_t next_ = 0;
};

class FakeStatus final : public StatusPort {
 public:
  [[nodiscard]] bool ready() const override { return is_ready; }
  [[nodiscard]] std::optional<Error> refusal(std::string_view /*dialect*/) const override {
    if (!refuses) return std::nullopt;
    return Error{"full", "no stream is free"};
  }
  void note_refusal(std::string_view dialect, const std::string& reason) const override {
    refused = std::make_shared<const std::string>(std::string(dialect) + ": " + reason);
  }
  [[nodiscard]] std::string metrics() const override { return "tutti_up 1\n"; }
  [[nodiscard]] ModelInfo model() const override { return {.name = "fake", .loaded_at = 1700000000}; }

  std::atomic<bool> is_ready{true};
  std::atomic<bool> refuses{false};
  mutable std::atomic<std::shared_ptr<const std::string>> refused;  ///< the last that was noted
};

/// What a test sees of one upload, from its own thread.
struct UploadProbe {
  UploadRequest request;
  std::shared_ptr<UploadSink> sink;
  std::atomic<size_t> written{0};
  std::atomic<bool> gone{false};
};

/// Takes uploads up to `places` at a time; what they are answered is up to the test, through the probe.
class FakeUploads final : public UploadPort {
 public:
  std::unique_ptr<UploadPlace> take_place() override {
    if (taken.fetch_add(1) < places) return std::make_unique<Place>(*this);
    --taken;
    return nullptr;
  }

  /// The next upload that was, or will be, complete.
  [[nodiscard]] std::shared_ptr<UploadProbe> next() {
    auto future = started_.at(next_++).get_future();
    if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
      throw std::runtime_error("no upload was started");
    }
    return future.get();
  }

  std::atomic<int> places{4};
  std::atomic<int> taken{0};

 private:
  class Place final : public UploadPlace {
   public:
    explicit Place(FakeUploads& uploads) : uploads_(uploads) {}
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() override {
      if (probe_) probe_->gone = true;
      --uploads_.taken;
    }
    void start(UploadRequest request, std::shared_ptr<UploadSink> sink) override {
      probe_ = std::make_shared<UploadProbe>();
      probe_->request = std::move(request);
      probe_->sink = std::move(sink);
      uploads_.started_.at(uploads_.start_count_++).set_value(probe_);
    }
    void on_written(size_t bytes) override { probe_->written += bytes; }

   private:
    FakeUploads& uploads_;
    std::shared_ptr<UploadProbe> probe_;
  };

  std::array<std::promise<std::shared_ptr<UploadProbe>>, 16> started_;
  std::atomic<size_t> start_count_{0};
  size_t next_ = 0;
};

/// One stream that can be watched, "known", by at most one subscriber.
class FakeSubscriptions final : public SubscriptionPort {
 public:
  void take_place(SubscriptionRequest request, Answer answer) override {
    Result<std::unique_ptr<SubscriptionPlace>> place = fail("no_such_stream", "there is no such stream");
    if (request.stream == "read") place = fail("nothing_new", "");
    if (request.stream == "known") {
      if (taken.fetch_add(1) == 0) {
        place = std::make_unique<Place>(*this);
      } else {
        --taken;
        place = fail("too_many_subscribers", "one subscriber is enough");
      }
    }
    asked.at(count_++).set_value(std::move(request));
    answer(std::move(place));
  }

  /// What the `i`-th request was.
  [[nodiscard]] SubscriptionRequest request(size_t i = 0) { return get(asked.at(i)); }
  /// The sink of the `i`-th that was started.
  [[nodiscard]] std::shared_ptr<SessionSink> sink(size_t i = 0) { return get(started.at(i)); }

  std::atomic<int> taken{0};

 private:
  class Place final : public SubscriptionPlace {
   public:
    explicit Place(FakeSubscriptions& port) : port_(port) {}
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() override { --port_.taken; }
    void start(std::shared_ptr<SessionSink> sink) override {
      port_.started.at(port_.start_count_++).set_value(std::move(sink));
    }

   private:
    FakeSubscriptions& port_;
  };

  template <class T>
  static T get(std::promise<T>& promise) {
    auto future = promise.get_future();
    if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
      throw std::runtime_error("nobody subscribed");
    }
    return future.get();
  }

  std::array<std::promise<SubscriptionRequest>, 16> asked;
  std::array<std::promise<std::shared_ptr<SessionSink>>, 16> started;
  std::atomic<size_t> count_{0};
  std::atomic<size_t> start_count_{0};
};

/// A server on a free port, with what it talks to.
struct TestServer {
  explicit TestServer(NetOptions options = {})
      : server(on_free_port(std::move(options)), gateway, status, uploads, subscriptions) {
    server.start();
  }

  static NetOptions on_free_port(NetOptions options) {
    options.bind = "127.0.0.1:0";
    return options;
  }

  FakeGateway gateway;
  FakeStatus status;
  FakeUploads uploads;
  FakeSubscriptions subscriptions;
  NetServer server;
};

/// Waits until `condition` holds; false when it never does.
template <class Condition>
[[nodiscard]] bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace tutti
