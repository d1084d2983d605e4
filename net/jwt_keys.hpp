#pragma once

#include <cjose/jwk.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

struct JwkDeleter {
  void operator()(cjose_jwk_t* key) const { cjose_jwk_release(key); }
};

using Jwk = std::unique_ptr<cjose_jwk_t, JwkDeleter>;

/// A key that tokens are signed with, and the one algorithm it is for.
struct JwtKey {
  std::string_view algorithm;  ///< "HS256", "RS256" or "ES256"
  std::string id;              ///< `kid`; empty = none
  Jwk key;
};

/// Whether it is base64url without padding (RFC 7515, section 2). To be asked of whatever cjose 0.6 is given
/// to decode: other text ends the program there.
[[nodiscard]] bool is_base64url(std::string_view text);

/// The keys of a file: JwtVerifier::load says which. Throws SetupError.
[[nodiscard]] std::vector<JwtKey> load_jwt_keys(const std::string& path);

}  // namespace tutti
