#pragma once

#include "proto/dialect.hpp"

namespace tutti::proto {

/// The dialect of sherpa-onnx's online WebSocket server: float samples at the model's rate, and `Done` at
/// their end. There is no error message. See docs/dialects.md.
[[nodiscard]] Acceptance accept_sherpa(const Handshake& handshake);

}  // namespace tutti::proto
