#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/result.hpp"

namespace tutti::proto {

/// A client's value as a message shows it: quoted, and cut so that an error stays one line.
[[nodiscard]] std::string shown(std::string_view value);

/// A whole decimal number; nothing for anything else, and what an int does not hold.
[[nodiscard]] std::optional<int> parse_int(std::string_view text);

/// `true`, `false`, `1` or `0`.
[[nodiscard]] std::optional<bool> parse_flag(std::string_view text);

// Parameters that several dialects have by the same name; a failure says what would be accepted.

/// `sample_rate`, in Hz. Fails with "bad_sample_rate".
[[nodiscard]] Result<int> parse_sample_rate(std::string_view value);
/// `channels`. Fails with "bad_channels".
[[nodiscard]] Result<int> parse_channels(std::string_view value);
/// Writes parse_flag of the value of `name` to `flag`. Fails with "bad_parameter".
[[nodiscard]] Result<void> read_flag(std::string_view name, std::string_view value, bool& flag);

}  // namespace tutti::proto
