#pragma once

#include <optional>
#include <string_view>

#include "proto/dialect.hpp"

namespace tutti::proto {

// Deepgram's live transcription, ws://HOST/v1/listen?encoding=...: see docs/dialects.md.

struct DeepgramRequest {
  StreamRequest stream;       ///< of each track; its channels are those of a track
  int channels = 1;           ///< interleaved in what the client sends
  bool multichannel = false;  ///< a track for each of them
  bool speech_final = true;   ///< false: `endpointing=false`, the client finds ends itself
  std::optional<int> utterance_end_ms;

  [[nodiscard]] int tracks() const { return multichannel ? channels : 1; }
};

/// The query string of the request. Fails with bad_encoding, bad_sample_rate, bad_channels, bad_parameter:
/// what was given and what is accepted. Unknown parameters are ignored.
[[nodiscard]] Result<DeepgramRequest> parse_deepgram_request(std::string_view query);

[[nodiscard]] Acceptance accept_deepgram(const Handshake& handshake);

}  // namespace tutti::proto
