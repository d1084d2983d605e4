#include "model/model_identity.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>

#include "model/bundle_config.hpp"

namespace tutti {
namespace {

/// SHA-256 of a sequence of parts: each is preceded by its length, so that where one ends is part of it.
class Hash {
 public:
  Hash() : context_(EVP_MD_CTX_new()) {
    check(context_ ? EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) : 0);
  }

  void add(std::span<const std::byte> part) {
    const uint64_t size = part.size();
    update(std::as_bytes(std::span(&size, 1)));
    update(part);
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }

  [[nodiscard]] ModelIdentity finish() {
    ModelIdentity identity;
    check(EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(identity.digest.data()),
                             nullptr));
    return identity;
  }

 private:
  static void check(int result) {
    if (result != 1) throw std::runtime_error("OpenSSL cannot compute SHA-256");
  }
  void update(std::span<const std::byte> bytes) {
    check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
  }

  std::unique_ptr<EVP_MD_CTX, decltype([](EVP_MD_CTX* context) { EVP_MD_CTX_free(context); })> context_;
};

}  // namespace

std::string to_string(const ModelIdentity& identity) {
  std::string text;
  for (const std::byte byte : identity.digest) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

ModelIdentity identify_model(const Checkpoint& checkpoint) {
  Hash hash;
  // Without the name, which changes nothing.
  hash.add(render_bundle_config({.name = "", .spec = checkpoint.spec}));
  for (const std::string& unit : checkpoint.units) hash.add(unit);
  for (const auto& [name, tensor] : checkpoint.weights.views()) {
    hash.add(fmt::format("{} {} {}", name, static_cast<int>(tensor.dtype), to_string(tensor.shape)));
    hash.add({tensor.data, tensor.bytes()});
  }
  return hash.finish();
}

}  // namespace tutti
