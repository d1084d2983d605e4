#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/api_keys.hpp"
#include "config/client_terms.hpp"
#include "config/result.hpp"
#include "net/jwt.hpp"

namespace tutti {

/// The request headers in which a client can present an API key, or a token in its place; empty when it sent
/// none.
struct CredentialHeaders {
  std::string_view authorization;  ///< `Bearer KEY` or `Token KEY`
  std::string_view x_api_key;      ///< `KEY`
  /// `token, KEY`, `bearer, KEY`, or among others `openai-insecure-api-key.KEY`: browsers can set no other
  /// header.
  std::string_view websocket_protocol;
};

/// The key presented, in the order above; nothing when there is none. A view of `headers`.
[[nodiscard]] std::optional<std::string_view> presented_key(const CredentialHeaders& headers);

/// The subprotocol that announces a key, `token` or `bearer`, which the server then has to choose: a browser
/// gives up a connection that chooses none of what it offered. Empty where neither is offered first.
[[nodiscard]] std::string_view key_subprotocol(std::string_view websocket_protocol);

/// Who is served, and on which terms.
struct Client {
  std::string name;  ///< of the key, or "jwt:" and the token's subject; empty = everybody
  ClientTerms terms = {};
};

/// Who may use a server. Pure: no sockets, no files, no clock.
class Credentials {
 public:
  /// Everybody, for everything.
  Credentials() = default;
  /// Who presents one of `keys`, or a token that `tokens` accepts (null = none is).
  explicit Credentials(std::vector<ApiKey> keys, std::shared_ptr<const JwtVerifier> tokens = nullptr)
      : keys_(std::move(keys)), tokens_(std::move(tokens)) {}

  [[nodiscard]] bool required() const { return !keys_.empty() || tokens_ != nullptr; }
  [[nodiscard]] size_t size() const { return keys_.size(); }
  [[nodiscard]] bool takes_tokens() const { return tokens_ != nullptr; }

  /// Whose request it is. Fails with "unauthorized". Takes the same time whichever key it is, and however
  /// much of one is right.
  [[nodiscard]] Result<Client> admit(const CredentialHeaders& headers,
                                     std::chrono::system_clock::time_point now) const;

 private:
  std::vector<ApiKey> keys_;
  std::shared_ptr<const JwtVerifier> tokens_;
};

/// What a key is stored and compared as. One round of SHA-256 is enough: a key is 256 random bits, which no
/// number of guesses finds. Slow hashes are for passwords, which people choose.
[[nodiscard]] Sha256 api_key_digest(std::string_view key);

/// A new key: "tutti_" and 256 random bits in hexadecimal. Throws std::runtime_error when the system has no
/// randomness to give.
[[nodiscard]] std::string generate_api_key();

}  // namespace tutti
