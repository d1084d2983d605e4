#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cache/attention_cache.hpp"
#include "decode/ctc_decoder.hpp"
#include "decode/voice_activity.hpp"

namespace tutti {

class ConformerCtc;

/// All that an engine knows of a stream between two ticks, but what waits: see Engine::snapshot. In host
/// memory, whatever the device. Bounded by the stream's caches.
struct StreamSnapshot {
  int64_t sample = 0;    ///< on the stream's clock: the first that is to be fed
  int64_t commands = 0;  ///< carried out so far
  int64_t events = 0;    ///< finals and voice events said so far: Update::event of the next
  int32_t segment = 0;   ///< the open one

  /// What the audio before `sample` has left behind; nothing for a stream that begins there.
  struct Past {
    std::shared_ptr<const ConformerCtc> model;
    AttentionCacheManager::History history;
    std::vector<float> keys_values;        ///< of the history's blocks, as BlockPool::read
    std::vector<float> convolution;        ///< (layers, K-1, D)
    std::vector<float> features;           ///< rows that the next window overlaps, (rows, mel)
    std::vector<std::byte> decoder;        ///< CtcDecoder::save_state
    std::vector<CtcToken> partial;         ///< hypothesis of the last partial
    std::vector<float> rescorable_frames;  ///< the segment's encoder output that is kept, (frames, D)
    VoiceActivity voice;
    int64_t voice_sample = 0;
    int64_t segment_sample = 0;
    int32_t position = 0;  ///< of the next encoder frame
  };
  std::optional<Past> past;
};

}  // namespace tutti
