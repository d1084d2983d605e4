#include "net/ledger.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tutti {
namespace {

using std::chrono::days;
using std::chrono::floor;

int64_t day_of(Ledger::Time now) { return floor<days>(now.time_since_epoch()).count(); }

int seconds_to_midnight(Ledger::Time now) {
  const auto next = floor<days>(now) + days(1);
  return static_cast<int>(std::chrono::ceil<std::chrono::seconds>(next - now).count());
}

}  // namespace

bool Ledger::Account::has_audio_left() const {
  return limits.max_audio_minutes_per_day == 0 ||
         audio < std::chrono::minutes(limits.max_audio_minutes_per_day);
}

Ledger::Account* Ledger::find_or_open(const Client& client, Time now) {
  if (client.terms.limits == ClientLimits{}) return nullptr;
  auto found = accounts_.find(client.name);
  if (found == accounts_.end()) {
    if (accounts_.size() - with_streams_ >= max_idle_) give_up_one();
    found = accounts_.emplace(client.name, Account{}).first;
    found->second.requests = client.terms.limits.max_requests_per_s;
    found->second.last_request = now;
  }
  Account& account = found->second;
  account.limits = client.terms.limits;  // of this token or this version of the file
  if (const int64_t today = day_of(now); account.day != today) {
    account.day = today;
    account.audio = {};
  }
  return &account;
}

void Ledger::give_up_one() {
  const auto oldest = std::ranges::min_element(accounts_, [](const auto& a, const auto& b) {
    const bool a_is_open = a.second.streams > 0;
    const bool b_is_open = b.second.streams > 0;
    return a_is_open != b_is_open ? b_is_open : a.second.last_request < b.second.last_request;
  });
  if (oldest != accounts_.end() && oldest->second.streams == 0) accounts_.erase(oldest);
}

Admitted<void> Ledger::note_request(const Client& client, Time now) {
  Account* const account = find_or_open(client, now);
  if (account == nullptr) return {};
  const double since = std::chrono::duration<double>(now - account->last_request).count();
  account->last_request = now;
  const int limit = account->limits.max_requests_per_s;
  if (limit == 0) return {};
  account->requests = std::min<double>(limit, account->requests + std::max(0.0, since) * limit);
  if (account->requests < 1) {
    return refusal(429, "rate_limited", fmt::format("this key may make {} requests a second", limit), 1);
  }
  account->requests -= 1;
  return {};
}

Admitted<void> Ledger::open_stream(const Client& client, Time now) {
  constexpr int retry_after_s = 5;
  Account* const account = find_or_open(client, now);
  if (account == nullptr) return {};
  const ClientLimits& limits = account->limits;
  if (limits.max_streams != 0 && account->streams >= limits.max_streams) {
    return refusal(429, "too_many_streams",
                   fmt::format("this key may have {} streams at once, files being transcribed among them",
                               limits.max_streams),
                   retry_after_s);
  }
  if (!account->has_audio_left()) {
    return refusal(
        429, "audio_limit",
        fmt::format("this key may have {} minutes of audio a day recognized; the day ends at 0:00 UTC",
                    limits.max_audio_minutes_per_day),
        seconds_to_midnight(now));
  }
  if (account->streams++ == 0) ++with_streams_;
  return {};
}

void Ledger::close_stream(const std::string& client) {
  const auto found = accounts_.find(client);
  if (found == accounts_.end() || found->second.streams == 0) return;
  if (--found->second.streams == 0) --with_streams_;
}

bool Ledger::note_audio(const std::string& client, std::chrono::milliseconds audio, Time now) {
  const auto found = accounts_.find(client);
  if (found == accounts_.end()) return true;
  Account& account = found->second;
  if (const int64_t today = day_of(now); account.day != today) {
    account.day = today;
    account.audio = {};
  }
  account.audio += audio;
  return account.has_audio_left();
}

}  // namespace tutti
