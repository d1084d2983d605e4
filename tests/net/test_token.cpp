#include "tests/net/test_token.hpp"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>

#include <algorithm>
#include <vector>

namespace tutti {
namespace {

using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;
using Signature = std::unique_ptr<ECDSA_SIG, decltype(&ECDSA_SIG_free)>;

std::string signed_part(std::string_view header, std::string_view claims) {
  return base64url(header) + "." + base64url(claims);
}

/// A JWS has the two numbers of an ECDSA signature, each of 32 bytes: RFC 7518, section 3.4.
std::string two_numbers(const std::string& der) {
  const auto* begin = reinterpret_cast<const unsigned char*>(der.data());
  const Signature signature(d2i_ECDSA_SIG(nullptr, &begin, static_cast<long>(der.size())), ECDSA_SIG_free);
  std::string raw(64, '\0');
  auto* const out = reinterpret_cast<unsigned char*>(raw.data());
  BN_bn2binpad(ECDSA_SIG_get0_r(signature.get()), out, 32);
  BN_bn2binpad(ECDSA_SIG_get0_s(signature.get()), out + 32, 32);
  return raw;
}

template <class Write>
std::string written(Write write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
  write(bio.get());
  char* begin = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &begin);
  return {begin, static_cast<size_t>(size)};
}

}  // namespace

std::string base64url(std::string_view bytes) {
  std::string text(4 * (bytes.size() / 3 + 1) + 1, '\0');
  const int size =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(size));
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  std::erase(text, '=');
  return text;
}

std::string TestKey::sign(std::string_view header, std::string_view claims) const {
  const std::string text = signed_part(header, claims);
  const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key_.get());
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t size = 0;
  EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size());
  std::string signature(size, '\0');
  EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, bytes,
                 text.size());
  signature.resize(size);
  if (EVP_PKEY_is_a(key_.get(), "EC") == 1) signature = two_numbers(signature);
  return text + "." + base64url(signature);
}

std::string TestKey::public_pem() const {
  return written([this](BIO* bio) { PEM_write_bio_PUBKEY(bio, key_.get()); });
}

std::string TestKey::private_pem() const {
  return written(
      [this](BIO* bio) { PEM_write_bio_PrivateKey(bio, key_.get(), nullptr, nullptr, 0, nullptr, nullptr); });
}

std::string TestKey::number(const char* parameter) const {
  BIGNUM* value = nullptr;
  EVP_PKEY_get_bn_param(key_.get(), parameter, &value);
  const std::unique_ptr<BIGNUM, decltype(&BN_free)> owned(value, BN_free);
  const bool is_coordinate = EVP_PKEY_is_a(key_.get(), "EC") == 1;
  std::string bytes(static_cast<size_t>(is_coordinate ? 32 : BN_num_bytes(value)), '\0');
  BN_bn2binpad(value, reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  return base64url(bytes);
}

std::string TestKey::jwk(std::string_view members) const {
  if (EVP_PKEY_is_a(key_.get(), "RSA") == 1) {
    return fmt::format(R"({{"kty":"RSA","n":"{}","e":"{}"{}}})", number(OSSL_PKEY_PARAM_RSA_N),
                       number(OSSL_PKEY_PARAM_RSA_E), members);
  }
  return fmt::format(R"({{"kty":"EC","crv":"P-256","x":"{}","y":"{}"{}}})", number(OSSL_PKEY_PARAM_EC_PUB_X),
                     number(OSSL_PKEY_PARAM_EC_PUB_Y), members);
}

std::string sign_with_secret(std::string_view secret, std::string_view header, std::string_view claims) {
  const std::string text = signed_part(header, claims);
  std::string signature(32, '\0');
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       reinterpret_cast<unsigned char*>(signature.data()), nullptr);
  return text + "." + base64url(signature);
}

}  // namespace tutti
