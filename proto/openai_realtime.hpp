#pragma once

#include "proto/dialect.hpp"

namespace tutti::proto {

/// OpenAI's realtime transcription, ws://HOST/v1/realtime?intent=transcription: see docs/dialects.md.
[[nodiscard]] Acceptance accept_openai_realtime(const Handshake& handshake);

}  // namespace tutti::proto
