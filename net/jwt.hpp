#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "config/client_terms.hpp"
#include "config/result.hpp"

namespace tutti {

/// What a token has to say beside being signed.
struct JwtRules {
  std::string audience;  ///< one of its `aud`
  std::string issuer;    ///< its `iss`; empty = any
};

/// What a token says of its client.
struct JwtClient {
  std::string subject;  ///< its `sub`: 1 to 128 printable ASCII characters
  ClientTerms terms;
};

/// Checks JSON Web Tokens (RFC 7519) signed with HS256, RS256 or ES256. Each key is for one algorithm, which
/// the token must name: neither `none` nor a public key taken for a secret passes. Pure: no clock, and no
/// files once loaded.
class JwtVerifier {
 public:
  /// Reads keys: a JWK set or one JWK (RFC 7517; keys for other algorithms or for encryption are passed
  /// over), public keys in PEM (RSA from 2048 bits on, P-256), or a secret of 32 bytes or more for HS256.
  /// Throws SetupError that names the file and what is wrong with it.
  [[nodiscard]] static JwtVerifier load(const std::string& path, JwtRules rules);

  JwtVerifier(JwtVerifier&& other) noexcept;
  JwtVerifier& operator=(JwtVerifier&& other) noexcept;
  ~JwtVerifier();

  /// Fails with "unauthorized" and what is wrong, in which nothing of the token is repeated. Required are
  /// `exp`, `aud` and `sub`; `nbf` and `iss` are checked, clocks may differ by 30 s. `scope` (RFC 8693,
  /// section 4.2) says what is allowed, without it streams and files; limits are numbers of the names of
  /// limit_fields.
  [[nodiscard]] Result<JwtClient> verify(std::string_view token,
                                         std::chrono::system_clock::time_point now) const;

  /// How many keys there are.
  [[nodiscard]] size_t size() const;

 private:
  struct Keys;
  JwtVerifier(std::unique_ptr<Keys> keys, JwtRules rules);

  std::unique_ptr<Keys> keys_;
  JwtRules rules_;
};

}  // namespace tutti
