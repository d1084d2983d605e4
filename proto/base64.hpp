#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace tutti::proto {

/// The bytes of base64 (RFC 4648 section 4), with its padding or without; nothing when `text` is not that.
[[nodiscard]] std::optional<std::vector<std::byte>> decode_base64(std::string_view text);

}  // namespace tutti::proto
