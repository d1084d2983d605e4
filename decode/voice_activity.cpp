#include "decode/voice_activity.hpp"

#include <algorithm>

namespace tutti {

// Down at once, up slowly: speech has gaps, a background does not.
void VoiceActivity::follow_floor(float energy) {
  state_.floor = state_.has_floor ? std::min(energy, state_.floor + options_.floor_rise) : energy;
  state_.has_floor = true;
}

std::optional<VoiceActivity::Event> VoiceActivity::observe(float energy, float token_probability) {
  const int64_t frame = state_.frames++;
  follow_floor(energy);
  const bool loud = energy > state_.floor + options_.energy_margin;
  if (loud && !state_.loud) state_.loud_since = frame;
  state_.loud = loud;
  const bool token = token_probability > 0.5F;
  if (token) state_.last_token = frame;
  const bool voiced = token || (loud && frame - state_.last_token <= options_.ctc_memory_frames);
  if (voiced) {
    const bool started = !state_.speaking;
    const int64_t start = loud ? std::max(state_.loud_since, state_.last_voiced + 1) : frame;
    state_.last_voiced = frame;
    state_.speaking = true;
    if (started) return Event{.started = true, .frame = start};
  } else if (state_.speaking && unvoiced_frames() >= options_.stop_frames) {
    state_.speaking = false;
    return Event{.started = false, .frame = state_.last_voiced + 1};
  }
  return std::nullopt;
}

}  // namespace tutti
