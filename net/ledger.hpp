#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "net/credentials.hpp"
#include "net/refusal.hpp"

namespace tutti {

/// What each client takes of the server, against the limits of its terms: streams at once, requests a second
/// (with as many at once after a second without any), minutes of audio a day of UTC. Pure and
/// single-threaded; told the time.
///
/// Only clients with limits have an account. Accounts without a stream are kept, the least recently used
/// given up beyond max_idle_accounts: then a client that came back the same day would begin anew. So does
/// everybody with the process.
class Ledger {
 public:
  using Time = std::chrono::system_clock::time_point;
  static constexpr size_t max_idle_accounts = 16'384;

  explicit Ledger(size_t idle_accounts = max_idle_accounts) : max_idle_(idle_accounts) {}

  /// Counts a request. Refuses with status 429: "rate_limited".
  [[nodiscard]] Admitted<void> note_request(const Client& client, Time now);
  /// Counts a stream, which close_stream ends. Refuses with status 429: "too_many_streams" and "audio_limit".
  [[nodiscard]] Admitted<void> open_stream(const Client& client, Time now);
  void close_stream(const std::string& client);
  /// Counts audio of an open stream. Whether the client may have more today.
  [[nodiscard]] bool note_audio(const std::string& client, std::chrono::milliseconds audio, Time now);

  [[nodiscard]] size_t accounts() const { return accounts_.size(); }

 private:
  struct Account {
    ClientLimits limits;
    int streams = 0;
    double requests = 0;                 // that may be made at once
    Time last_request;                   // when that was so
    int64_t day = 0;                     // since 1970
    std::chrono::milliseconds audio{0};  // of that day

    [[nodiscard]] bool has_audio_left() const;
  };

  /// Null when the client has no limits.
  Account* find_or_open(const Client& client, Time now);
  void give_up_one();

  size_t max_idle_;
  size_t with_streams_ = 0;
  std::unordered_map<std::string, Account> accounts_;
};

}  // namespace tutti
