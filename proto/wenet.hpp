#pragma once

#include "proto/dialect.hpp"

namespace tutti::proto {

/// The dialect of WeNet's WebSocket server: a start signal, 16 kHz audio, an end signal. See
/// docs/dialects.md.
[[nodiscard]] Acceptance accept_wenet(const Handshake& handshake);

}  // namespace tutti::proto
