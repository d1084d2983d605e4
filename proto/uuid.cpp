#include "proto/uuid.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <stdexcept>

namespace tutti::proto {

std::string write_uuid(std::span<const std::byte, uuid_bytes> uuid) {
  std::string text;
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    fmt::format_to(std::back_inserter(text), "{:02x}", std::to_integer<int>(uuid[i]));
  }
  return text;
}

std::string uuid_of(std::string_view name) {
  constexpr std::string_view name_space("\x9f\x1c\x5a\x3e\x42\xd7\x4b\x60\x8a\x15\x0e\xb4\x7d\x93\x26\xc8",
                                        16);
  std::string input(name_space);
  input += name;
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
  if (EVP_Digest(input.data(), input.size(), digest.data(), nullptr, EVP_sha1(), nullptr) != 1) {
    throw std::runtime_error("SHA-1 is not available");
  }
  digest[6] = static_cast<uint8_t>((digest[6] & 0x0fU) | 0x50U);  // the version
  digest[8] = static_cast<uint8_t>((digest[8] & 0x3fU) | 0x80U);  // the variant
  return write_uuid(std::as_bytes(std::span(digest)).first<uuid_bytes>());
}

}  // namespace tutti::proto
