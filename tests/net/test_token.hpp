#pragma once

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <memory>
#include <string>
#include <string_view>

namespace tutti {

/// Signs tokens with OpenSSL alone, as other software would, and as none should.
class TestKey {
 public:
  static TestKey rsa(unsigned bits = 2048) { return TestKey(EVP_RSA_gen(bits)); }
  static TestKey ec(const char* curve = "P-256") { return TestKey(EVP_EC_gen(curve)); }

  /// RS256 or ES256, whatever `header` says.
  [[nodiscard]] std::string sign(std::string_view header, std::string_view claims) const;
  [[nodiscard]] std::string public_pem() const;
  [[nodiscard]] std::string private_pem() const;
  /// The public key as a JWK with more `members`, such as `"kid":"a"`; with a comma at its begin.
  [[nodiscard]] std::string jwk(std::string_view members = "") const;

 private:
  explicit TestKey(EVP_PKEY* key) : key_(key, EVP_PKEY_free) {}
  [[nodiscard]] std::string number(const char* parameter) const;

  std::shared_ptr<EVP_PKEY> key_;
};

/// HS256.
[[nodiscard]] std::string sign_with_secret(std::string_view secret, std::string_view header,
                                           std::string_view claims);
/// base64url (RFC 4648 section 5) without padding.
[[nodiscard]] std::string base64url(std::string_view bytes);

}  // namespace tutti
