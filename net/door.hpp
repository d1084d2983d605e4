#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <unordered_map>

#include "net/credentials.hpp"
#include "net/ledger.hpp"
#include "net/refusal.hpp"

namespace tutti {

/// What a request wants to be let in for.
struct Ask {
  CredentialHeaders credentials = {};  ///< views, valid until the answer
  std::optional<Right> right = {};     ///< nothing = what every client may
  bool is_stream = false;              ///< counts among the client's streams until it leaves
  std::string address_account = {};    ///< counts there until it leaves; empty = nowhere
};

/// Decides who is let in: by key, right, and what the client and its address have taken already. Pure and
/// single-threaded; told the time.
class Door {
 public:
  using Time = std::chrono::system_clock::time_point;

  /// `max_per_address` is of connections, and of streams behind a proxy.
  Door(Credentials credentials, int max_per_address)
      : credentials_(std::move(credentials)), max_per_address_(max_per_address) {}

  /// Who may come from now on, as to the constructor. Who is in stays, and what was taken counts.
  void use(Credentials credentials, int max_per_address) {
    credentials_ = std::move(credentials);
    max_per_address_ = max_per_address;
  }

  /// Refuses with 401 "unauthorized", 403 "forbidden", or 429 and a code of Ledger or "too_many_connections".
  [[nodiscard]] Admitted<Client> admit(const Ask& ask, Time now);
  /// The end of what was admitted.
  void leave(const Client& client, bool was_stream, const std::string& address_account);
  [[nodiscard]] bool note_audio(const Client& client, std::chrono::milliseconds audio, Time now) {
    return ledger_.note_audio(client.name, audio, now);
  }

  /// Counts a connection; whether there may be another one. An empty account always may.
  [[nodiscard]] bool enter(const std::string& address_account);
  void leave(const std::string& address_account);

 private:
  [[nodiscard]] Admitted<void> count(const Client& client, const Ask& ask, Time now);

  Credentials credentials_;
  int max_per_address_;
  Ledger ledger_;
  std::unordered_map<std::string, int> addresses_;  // as many as there are connections at most
};

}  // namespace tutti
