#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "net/credentials.hpp"

namespace tutti {

class Hub;

/// What a request that was let in holds until it is over: its place among the streams of its client and of
/// its address. From any thread.
class Visit {
 public:
  Visit(std::shared_ptr<Hub> hub, Client client, bool is_stream, std::string address_account)
      : hub_(std::move(hub)),
        client_(std::move(client)),
        is_stream_(is_stream),
        address_account_(std::move(address_account)) {}
  Visit(Visit&&) noexcept = default;
  Visit& operator=(Visit&&) = delete;
  ~Visit();

  [[nodiscard]] const std::string& client() const { return client_.name; }
  /// Counts audio that was recognized. `on_exhausted` is called when the client may have no more today.
  void note_audio(std::chrono::milliseconds audio, std::function<void()> on_exhausted) const;

 private:
  std::shared_ptr<Hub> hub_;
  Client client_;
  bool is_stream_;
  std::string address_account_;
};

}  // namespace tutti
