#include "net/door.hpp"

#include <fmt/format.h>

#include <utility>

namespace tutti {

Admitted<Client> Door::admit(const Ask& ask, Time now) {
  auto client = credentials_.admit(ask.credentials, now);
  if (!client) return refusal(401, std::move(client.error().code), std::move(client.error().message));
  if (auto counted = ledger_.note_request(*client, now); !counted) return tl::unexpected(counted.error());
  if (ask.right && !client->terms.allowed.has(*ask.right)) {
    const std::string allowed = to_string(client->terms.allowed);
    return refusal(403, "forbidden",
                   fmt::format("this needs a key that allows {}; yours allows {}", to_string(*ask.right),
                               allowed.empty() ? "nothing" : allowed));
  }
  if (auto counted = count(*client, ask, now); !counted) return tl::unexpected(counted.error());
  return std::move(*client);
}

Admitted<void> Door::count(const Client& client, const Ask& ask, Time now) {
  constexpr int retry_after_s = 5;
  if (!enter(ask.address_account)) {
    return refusal(429, "too_many_connections",
                   fmt::format("there may be {} streams from one address", max_per_address_), retry_after_s);
  }
  if (!ask.is_stream) return {};
  auto opened = ledger_.open_stream(client, now);
  if (!opened) leave(ask.address_account);
  return opened;
}

void Door::leave(const Client& client, bool was_stream, const std::string& address_account) {
  if (was_stream) ledger_.close_stream(client.name);
  leave(address_account);
}

bool Door::enter(const std::string& address_account) {
  if (address_account.empty()) return true;
  int& count = addresses_[address_account];
  if (count >= max_per_address_) return false;
  ++count;
  return true;
}

void Door::leave(const std::string& address_account) {
  const auto found = addresses_.find(address_account);
  if (found != addresses_.end() && --found->second <= 0) addresses_.erase(found);
}

}  // namespace tutti
