#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tutti::proto {

/// A client's value as a message shows it: quoted, and cut so that an error stays one line.
[[nodiscard]] std::string shown(std::string_view value);

/// A whole decimal number; nothing for anything else, and what an int does not hold.
[[nodiscard]] std::optional<int> parse_int(std::string_view text);

/// `true`, `false`, `1` or `0`.
[[nodiscard]] std::optional<bool> parse_flag(std::string_view text);

}  // namespace tutti::proto
