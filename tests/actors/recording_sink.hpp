#pragma once

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "actors/ports.hpp"

namespace tutti::test {

/// A session that keeps what its stream says. Read it when the stream cannot be running, or after `closed`.
class RecordingSink final : public SessionSink {
 public:
  void send(std::string message, bool is_partial) override {
    partials += is_partial ? 1 : 0;
    messages.push_back(std::move(message));
  }
  void note_audio(double seconds) override { audio_seconds += seconds; }
  void grant(int64_t bytes) override {
    granted += bytes;
    granted.notify_all();
  }
  void await_results(bool does) override { waits = does ? 1 : 0; }
  void close(CloseReason reason, std::string message) override {
    close_reason = reason;
    close_message = std::move(message);
    ++closes;
    closes.notify_all();
  }

  void wait_until_closed() const { closes.wait(0); }
  [[nodiscard]] bool closed() const { return closes > 0; }
  [[nodiscard]] int count(std::string_view part) const {
    return static_cast<int>(std::ranges::count_if(
        messages, [part](const std::string& message) { return message.find(part) != std::string::npos; }));
  }

  std::vector<std::string> messages;
  int partials = 0;
  double audio_seconds = 0;
  int waits = 0;  // whether the client does
  std::atomic<int64_t> granted{0};
  CloseReason close_reason{};
  std::string close_message;
  std::atomic<int> closes{0};
};

}  // namespace tutti::test
