#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tutti::proto {

inline constexpr size_t uuid_bytes = 16;

/// As text, in groups of 8, 4, 4, 4 and 12 hexadecimal digits (RFC 9562 section 4).
[[nodiscard]] std::string write_uuid(std::span<const std::byte, uuid_bytes> uuid);

/// A UUID for `name`, always the same one for the same name: version 5 (RFC 9562 section 5.5), in a namespace
/// of this server's. For protocols whose identifiers must look like one.
[[nodiscard]] std::string uuid_of(std::string_view name);

}  // namespace tutti::proto
