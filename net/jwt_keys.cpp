#include "net/jwt_keys.hpp"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "config/openssl_ptr.hpp"
#include "config/result.hpp"
#include "proto/json_message.hpp"

namespace tutti {
namespace {

constexpr std::string_view hs256 = "HS256";
constexpr std::string_view rs256 = "RS256";
constexpr std::string_view es256 = "ES256";
// RFC 7518, sections 3.2 and 3.3.
constexpr size_t fewest_secret_bits = 256;
constexpr size_t fewest_rsa_bits = 2048;
constexpr int p256_coordinate_bytes = 32;
constexpr size_t most_file_bytes = 1U << 20U;

/// A key file and how it is refused.
struct KeyFile {
  const std::string& path;

  [[noreturn]] void refuse(std::string_view why) const {
    throw SetupError(fmt::format(
        "JWT keys {}: {}; accepted are a JWK set with keys for HS256, RS256 or ES256, public keys in PEM "
        "(-----BEGIN PUBLIC KEY-----, RSA of 2048 bits or P-256), or a secret of 32 bytes or more",
        path, why));
  }
};

std::string read(const KeyFile& file) {
  std::ifstream in(file.path, std::ios::binary);
  if (!in) file.refuse(std::generic_category().message(errno));
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (text.size() > most_file_bytes) file.refuse("is longer than 1 MiB");
  return text;
}

std::optional<std::string_view> algorithm_for(cjose_jwk_t* key) {
  switch (cjose_jwk_get_kty(key, nullptr)) {
    case CJOSE_JWK_KTY_OCT:
      return hs256;
    case CJOSE_JWK_KTY_RSA:
      return rs256;
    case CJOSE_JWK_KTY_EC:
      if (cjose_jwk_EC_get_curve(key, nullptr) == CJOSE_JWK_EC_P_256) return es256;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

JwtKey checked(const KeyFile& file, JwtKey key) {
  const size_t bits = cjose_jwk_get_keysize(key.key.get(), nullptr);
  if (key.algorithm == hs256 && bits < fewest_secret_bits) file.refuse("has a secret of less than 32 bytes");
  if (key.algorithm == rs256 && bits < fewest_rsa_bits) file.refuse("has an RSA key of less than 2048 bits");
  return key;
}

/// Nothing when it is for something else.
std::optional<JwtKey> read_jwk(const KeyFile& file, const simdjson::dom::object& member) {
  if (proto::string_in(member, "use").value_or("sig") != "sig") return std::nullopt;
  for (const char* number : {"k", "n", "e", "x", "y"}) {
    if (!is_base64url(proto::string_in(member, number).value_or(""))) {
      file.refuse(fmt::format("has a key whose {} is not base64url", number));
    }
  }
  const std::string json = simdjson::minify(member);
  JwtKey key{.algorithm = {},
             .id = std::string(proto::string_in(member, "kid").value_or("")),
             .key = Jwk(cjose_jwk_import(json.data(), json.size(), nullptr))};
  if (!key.key) return std::nullopt;
  const auto algorithm = algorithm_for(key.key.get());
  if (!algorithm || proto::string_in(member, "alg").value_or(*algorithm) != *algorithm) return std::nullopt;
  if (*algorithm != hs256 && proto::string_in(member, "d")) {
    file.refuse("has a private key, which only who signs tokens should have");
  }
  key.algorithm = *algorithm;
  return checked(file, std::move(key));
}

std::vector<JwtKey> read_jwks(const KeyFile& file, std::string_view text) {
  const auto message = proto::JsonMessage::parse(text, most_file_bytes);
  if (!message) file.refuse("is not the JSON it begins as");
  std::vector<JwtKey> keys;
  const auto add = [&](const simdjson::dom::object& member) {
    if (auto key = read_jwk(file, member)) keys.push_back(std::move(*key));
  };
  if (const auto set = proto::array_in(message->object(), "keys")) {
    for (const simdjson::dom::element member : *set) {
      simdjson::dom::object object;
      if (member.get(object) == simdjson::SUCCESS) add(object);
    }
  } else {
    add(message->object());
  }
  return keys;
}

std::vector<uint8_t> bytes_of(const EVP_PKEY* key, const char* parameter, int at_least) {
  BIGNUM* number = nullptr;
  EVP_PKEY_get_bn_param(key, parameter, &number);
  const BigNumber owned(number);
  if (!number) return {};
  std::vector<uint8_t> bytes(static_cast<size_t>(std::max(at_least, BN_num_bytes(number))));
  BN_bn2binpad(number, bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

cjose_jwk_t* import_rsa(const EVP_PKEY* key) {
  auto n = bytes_of(key, OSSL_PKEY_PARAM_RSA_N, 0);
  auto e = bytes_of(key, OSSL_PKEY_PARAM_RSA_E, 0);
  cjose_jwk_rsa_keyspec spec{};
  spec.n = n.data();
  spec.nlen = n.size();
  spec.e = e.data();
  spec.elen = e.size();
  return cjose_jwk_create_RSA_spec(&spec, nullptr);
}

cjose_jwk_t* import_ec(const EVP_PKEY* key) {
  std::array<char, 32> group{};
  EVP_PKEY_get_group_name(key, group.data(), group.size(), nullptr);
  if (std::string_view(group.data()) != "prime256v1") return nullptr;
  auto x = bytes_of(key, OSSL_PKEY_PARAM_EC_PUB_X, p256_coordinate_bytes);
  auto y = bytes_of(key, OSSL_PKEY_PARAM_EC_PUB_Y, p256_coordinate_bytes);
  cjose_jwk_ec_keyspec spec{};
  spec.crv = CJOSE_JWK_EC_P_256;
  spec.x = x.data();
  spec.xlen = x.size();
  spec.y = y.data();
  spec.ylen = y.size();
  return cjose_jwk_create_EC_spec(&spec, nullptr);
}

std::vector<JwtKey> read_pem(const KeyFile& file, std::string_view text) {
  if (text.find("PRIVATE KEY-----") != std::string_view::npos) {
    file.refuse("has a private key, which only who signs tokens should have");
  }
  std::vector<JwtKey> keys;
  const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  while (const PublicKey pem{PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr)}) {
    const bool is_rsa = EVP_PKEY_is_a(pem.get(), "RSA") == 1;
    const bool is_ec = EVP_PKEY_is_a(pem.get(), "EC") == 1;
    Jwk imported(is_rsa ? import_rsa(pem.get()) : is_ec ? import_ec(pem.get()) : nullptr);
    JwtKey key{.algorithm = is_rsa ? rs256 : es256, .id = {}, .key = std::move(imported)};
    if (!key.key) file.refuse("has a key that is neither RSA nor P-256");
    keys.push_back(checked(file, std::move(key)));
  }
  return keys;
}

std::vector<JwtKey> read_secret(const KeyFile& file, std::string_view text) {
  Jwk secret(cjose_jwk_create_oct_spec(reinterpret_cast<const uint8_t*>(text.data()), text.size(), nullptr));
  if (!secret) file.refuse("is empty");
  std::vector<JwtKey> keys;
  keys.push_back(checked(file, {.algorithm = hs256, .id = {}, .key = std::move(secret)}));
  return keys;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const size_t begin = std::min(text.find_first_not_of(blanks), text.size());
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

}  // namespace

bool is_base64url(std::string_view text) {
  const auto is_digit = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  return text.size() % 4 != 1 && std::ranges::all_of(text, is_digit);
}

std::vector<JwtKey> load_jwt_keys(const std::string& path) {
  const KeyFile file{path};
  const std::string content = read(file);
  const std::string_view text = trimmed(content);
  const bool is_pem = text.find("-----BEGIN ") != std::string_view::npos;
  auto keys = is_pem                  ? read_pem(file, text)
              : text.starts_with('{') ? read_jwks(file, text)
                                      : read_secret(file, text);
  if (keys.empty()) file.refuse("has no such key");
  return keys;
}

}  // namespace tutti
