#include "net/session_id.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/rand.h>

#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>

namespace tutti {

std::string make_session_id() {
  std::array<uint8_t, 16> bytes{};
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) throw std::runtime_error("no random numbers");
  bytes[6] = static_cast<uint8_t>((bytes[6] & 0x0fU) | 0x40U);  // the version
  bytes[8] = static_cast<uint8_t>((bytes[8] & 0x3fU) | 0x80U);  // the variant
  const std::span<const uint8_t> all = bytes;
  return fmt::format("{:02x}-{:02x}-{:02x}-{:02x}-{:02x}", fmt::join(all.subspan(0, 4), ""),
                     fmt::join(all.subspan(4, 2), ""), fmt::join(all.subspan(6, 2), ""),
                     fmt::join(all.subspan(8, 2), ""), fmt::join(all.subspan(10, 6), ""));
}

}  // namespace tutti
