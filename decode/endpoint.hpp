#pragma once

#include <cstdint>

namespace tutti {

/// When a segment ends by itself. Times in milliseconds; 0 switches a rule off.
struct EndpointRules {
  int silence_after_speech_ms = 800;  ///< unvoiced time after at least one token
  int long_silence_ms = 5000;         ///< unvoiced time without a token; such a segment ends silently
  int max_segment_ms = 30000;         ///< of a segment with at least one token

  [[nodiscard]] static EndpointRules none() { return {0, 0, 0}; }
};

enum class Endpoint : uint8_t {
  none,
  silence,  ///< the speaker paused: the segment is final
  idle,     ///< nothing was said for long: the segment starts anew, nothing is told
  length,   ///< the segment is as long as it may be
};

/// What a rule looks at, after each chunk.
struct SegmentProgress {
  int64_t segment_ms = 0;   ///< since the segment began
  int64_t unvoiced_ms = 0;  ///< since the last voiced frame, or since the segment began
  bool has_tokens = false;
};

[[nodiscard]] Endpoint find_endpoint(const EndpointRules& rules, const SegmentProgress& progress);

}  // namespace tutti
