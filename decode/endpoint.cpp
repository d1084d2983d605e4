#include "decode/endpoint.hpp"

namespace tutti {

Endpoint find_endpoint(const EndpointRules& rules, const SegmentProgress& progress) {
  const auto reached = [](int64_t ms, int limit) { return limit > 0 && ms >= limit; };
  if (!progress.has_tokens)
    return reached(progress.unvoiced_ms, rules.long_silence_ms) ? Endpoint::idle : Endpoint::none;
  if (reached(progress.unvoiced_ms, rules.silence_after_speech_ms)) return Endpoint::silence;
  if (reached(progress.segment_ms, rules.max_segment_ms)) return Endpoint::length;
  return Endpoint::none;
}

}  // namespace tutti
