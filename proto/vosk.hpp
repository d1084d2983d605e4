#pragma once

#include "proto/dialect.hpp"

namespace tutti::proto {

/// The Vosk server's dialect: binary audio, and exactly one reply for every message of it, which is the open
/// segment so far or what was closed since the last reply. There is no error message. See docs/dialects.md.
[[nodiscard]] Acceptance accept_vosk(const Handshake& handshake);

}  // namespace tutti::proto
