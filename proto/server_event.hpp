#pragma once

#include <string_view>

#include "proto/native.hpp"

namespace tutti::proto {

/// What write_event wrote in JSON, as a client reads it; members that are missing keep their defaults,
/// unknown ones are ignored, words are not read. Fails with bad_json (not a JSON object) or unknown_type.
[[nodiscard]] Result<ServerEvent> parse_server_event(std::string_view text);

}  // namespace tutti::proto
