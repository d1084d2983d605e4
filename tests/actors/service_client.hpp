#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/ports.hpp"
#include "tests/actors/native_session.hpp"
#include "tests/actors/recording_sink.hpp"

namespace tutti::test {

inline std::vector<std::byte> pcm(const std::vector<float>& samples) {
  std::vector<std::byte> bytes(samples.size() * 2);
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto value = static_cast<int16_t>(std::lround(samples[i] * 32768.0F));
    std::memcpy(&bytes[2 * i], &value, 2);
  }
  return bytes;
}

/// A session that sends what its credit allows, like one whose socket is read no further.
class Client {
 public:
  Client(GatewayPort& gateway, const std::string& query)
      : port_(gateway.open_stream(native_session(query), sink_)) {}

  void send(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const int64_t granted = wait_for_credit();
      const auto size = std::min({bytes.size(), static_cast<size_t>(granted - sent_), size_t{3200}});
      port_->on_audio({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)});
      sent_ += static_cast<int64_t>(size);
      bytes = bytes.subspan(size);
    }
  }
  void send_text(const std::string& text) { port_->on_text(text); }
  const RecordingSink& wait_until_closed() {
    sink_->wait_until_closed();
    return *sink_;
  }
  void wait_until_placed() { wait_for_credit(); }

 private:
  int64_t wait_for_credit() {
    int64_t granted = sink_->granted;
    for (; granted <= sent_; granted = sink_->granted) sink_->granted.wait(granted);
    return granted;
  }

  std::shared_ptr<RecordingSink> sink_ = std::make_shared<RecordingSink>();
  std::unique_ptr<StreamPort> port_;
  int64_t sent_ = 0;
};

}  // namespace tutti::test
