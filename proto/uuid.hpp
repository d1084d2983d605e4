#pragma once

#include <string>
#include <string_view>

namespace tutti::proto {

/// A UUID for `name`, always the same one for the same name: version 5 (RFC 9562 section 5.5), in a namespace
/// of this server's. For protocols whose identifiers must look like one.
[[nodiscard]] std::string uuid_of(std::string_view name);

}  // namespace tutti::proto
