#pragma once

#include "proto/dialect.hpp"

namespace tutti::proto {

/// Genesys Cloud's AudioHook, version 2: see docs/dialects.md. Each channel is a track.
[[nodiscard]] Acceptance accept_audiohook(const Handshake& handshake);

}  // namespace tutti::proto
