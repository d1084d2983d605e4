#pragma once

#include "proto/dialect.hpp"

namespace tutti::proto {

// Telephone systems that connect to the server, say in a first text message what they send, and then send raw
// audio in binary messages: see docs/dialects.md.

/// jambonz' verb `listen` and FreeSWITCH's mod_audio_fork.
[[nodiscard]] Acceptance accept_jambonz(const Handshake& handshake);

/// Asterisk's chan_websocket.
[[nodiscard]] Acceptance accept_asterisk(const Handshake& handshake);

}  // namespace tutti::proto
