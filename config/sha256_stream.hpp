#pragma once

#include <openssl/evp.h>

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>

#include "config/openssl_ptr.hpp"
#include "config/sha256.hpp"

namespace tutti {

/// SHA-256 of bytes that come in pieces. Throws std::runtime_error where OpenSSL cannot compute it.
class Sha256Stream {
 public:
  Sha256Stream() { check(context_ ? EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) : 0); }

  void add(std::span<const std::byte> bytes) {
    check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
  }
  /// Of all bytes so far. The last call.
  [[nodiscard]] Sha256 finish() {
    Sha256 digest{};
    check(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr));
    return digest;
  }

 private:
  static void check(int result) {
    if (result != 1) throw std::runtime_error("OpenSSL cannot compute SHA-256");
  }

  std::unique_ptr<EVP_MD_CTX, OpensslDeleter<EVP_MD_CTX_free>> context_{EVP_MD_CTX_new()};
};

}  // namespace tutti
