#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace tutti {

using Sha256 = std::array<uint8_t, 32>;

/// Two digits for each byte: "00ff...".
[[nodiscard]] inline std::string to_hex(std::span<const uint8_t> bytes) {
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

}  // namespace tutti
