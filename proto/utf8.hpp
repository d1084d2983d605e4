#pragma once

#include <cstddef>
#include <string_view>

namespace tutti::proto {

/// U+FFFD, what stands for bytes that are not UTF-8.
inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

/// Bytes of the well-formed UTF-8 sequence that `text` begins with: 1 to 4, or 0 when it begins with none
/// (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF).
[[nodiscard]] size_t utf8_sequence_length(std::string_view text);

}  // namespace tutti::proto
