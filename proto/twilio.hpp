#pragma once

#include "proto/dialect.hpp"

namespace tutti::proto {

/// Twilio's Media Streams, and those of Telnyx, SignalWire and others who write nearly the same: see
/// docs/dialects.md. Each track of the call is a track here; nothing is sent back.
[[nodiscard]] Acceptance accept_twilio(const Handshake& handshake);

}  // namespace tutti::proto
