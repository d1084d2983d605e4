#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

/// U+FFFD, what stands for a byte that is not UTF-8.
inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

/// Takes the first character off `text`, which is not empty, and returns it; a byte that begins no
/// well-formed sequence comes out as U+FFFD (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing
/// above U+10FFFF).
[[nodiscard]] std::string_view take_utf8(std::string_view& text);

/// One line whatever `text` holds: control characters become spaces, bytes that are not UTF-8 U+FFFD.
[[nodiscard]] std::string single_line(std::string_view text);

/// As much of `text` as fits into `max_bytes` of UTF-8.
[[nodiscard]] std::string utf8_prefix(std::string_view text, size_t max_bytes);

}  // namespace tutti
