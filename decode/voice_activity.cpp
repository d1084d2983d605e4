#include "decode/voice_activity.hpp"

#include <algorithm>

namespace tutti {

// Down at once, up slowly: speech has gaps, a background does not.
void VoiceActivity::follow_floor(float energy) {
  floor_ = has_floor_ ? std::min(energy, floor_ + options_.floor_rise) : energy;
  has_floor_ = true;
}

std::optional<VoiceActivity::Event> VoiceActivity::observe(float energy, float token_probability) {
  const int64_t frame = frames_++;
  follow_floor(energy);
  const bool loud = energy > floor_ + options_.energy_margin;
  if (loud && !loud_) loud_since_ = frame;
  loud_ = loud;
  const bool token = token_probability > 0.5F;
  if (token) last_token_ = frame;
  const bool voiced = token || (loud && frame - last_token_ <= options_.ctc_memory_frames);
  if (voiced) {
    const bool started = !speaking_;
    const int64_t start = loud ? std::max(loud_since_, last_voiced_ + 1) : frame;
    last_voiced_ = frame;
    speaking_ = true;
    if (started) return Event{.started = true, .frame = start};
  } else if (speaking_ && unvoiced_frames() >= options_.stop_frames) {
    speaking_ = false;
    return Event{.started = false, .frame = last_voiced_ + 1};
  }
  return std::nullopt;
}

}  // namespace tutti
