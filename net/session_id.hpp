#pragma once

#include <string>

namespace tutti {

/// A random UUID (RFC 9562 section 5.4), which names a session on the wire and in logs.
[[nodiscard]] std::string make_session_id();

}  // namespace tutti
