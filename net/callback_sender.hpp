#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "actors/callback_port.hpp"
#include "config/result.hpp"
#include "net/address_range.hpp"
#include "net/client_url.hpp"

namespace tutti {

struct CallbackOptions {
  ClientUrl url;                               ///< of http or https: see parse_callback_url
  std::string secret;                          ///< that messages are signed with
  std::vector<AddressRange> private_networks;  ///< that may be called although they are not public
  std::string ca_file;                         ///< PEM, beside the system's authorities; empty = none
  std::chrono::milliseconds timeout{10'000};   ///< of one attempt, from the resolver to the response
  int attempts = 6;
  size_t max_queued = 1000;
};

/// Reads https://HOST[:PORT][/PATH][?QUERY], or http. Fails with "bad_url".
[[nodiscard]] Result<ClientUrl> parse_callback_url(std::string_view url);

/// The value of the header Tutti-Signature: `t=TIME,v1=HEX`, where HEX is HMAC-SHA256 with the secret over
/// the decimal time in seconds since 1970, a full stop, and the body.
[[nodiscard]] std::string sign_callback(std::string_view secret, int64_t time, std::string_view body);

/// What a sender counts; totals only grow.
struct CallbackStats {
  std::atomic<int64_t> waiting{0};  ///< now, the one under way among them
  std::atomic<int64_t> delivered{0};
  std::atomic<int64_t> retries{0};
  std::atomic<int64_t> failed{0};   ///< given up: refused, or no attempt left
  std::atomic<int64_t> dropped{0};  ///< beyond max_queued, or left at the end
  std::atomic<int64_t> connections{0};
};

/// Posts messages to one URL, in order, one at a time on one connection, on a thread of its own.
///
/// What fails for the moment (no connection, a time-out, 408, 429, 5xx) is tried again, with all that follows
/// waiting behind it; another answer than 2xx is final. Redirects are not followed. What is connected to is
/// an address that was checked: listed, or public and spoken TLS to.
class CallbackSender final : public CallbackPort {
 public:
  /// Throws SetupError when the CA file cannot be read.
  explicit CallbackSender(CallbackOptions options);
  CallbackSender(const CallbackSender&) = delete;
  CallbackSender& operator=(const CallbackSender&) = delete;
  /// Calls stop(0).
  ~CallbackSender() override;

  /// At max_queued a message is dropped, counted and logged.
  void post(std::string id, std::string body) override;
  /// Goes on for `flush` at most with what is queued, then drops it, counted and logged.
  void stop(std::chrono::milliseconds flush);
  [[nodiscard]] const CallbackStats& stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
