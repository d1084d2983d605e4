#pragma once

#include <cstdint>
#include <optional>

namespace tutti {

/// Whether somebody speaks, frame by frame, from two witnesses: the energy of the features against a floor
/// that follows the background, and the CTC head's belief that the frame is not blank. Energy alone would
/// take any noise for speech; the CTC head alone is silent between its spikes. A frame is voiced when it is
/// loud and the head spoke up within the last `ctc_memory_frames`, or when the head speaks up on it.
class VoiceActivity {
 public:
  struct Options {
    float energy_margin = 2.0F;  ///< above the floor, natural log of power (2.0 = 8.7 dB)
    float floor_rise = 0.004F;   ///< of the floor per frame: 0.1 a second at 40 ms frames
    int ctc_memory_frames = 12;
    int stop_frames = 12;  ///< unvoiced frames after which speech has stopped
  };

  /// A change between silence and speech, and the frame it happened at: a start is that of the first loud
  /// frame before the head spoke up, a stop the frame after the last voiced one.
  struct Event {
    bool started = false;
    int64_t frame = 0;
  };

  /// What it knows after the frames it has heard.
  struct State {
    int64_t frames = 0;
    int64_t last_voiced = -1;
    int64_t last_token = -1000;
    int64_t loud_since = 0;  ///< first frame of the loud run in progress
    bool loud = false;
    bool speaking = false;
    bool has_floor = false;
    float floor = 0;
    bool operator==(const State&) const = default;
  };

  VoiceActivity() = default;
  explicit VoiceActivity(const Options& options) : options_(options) {}
  /// Goes on from a state of another one with the same options.
  explicit VoiceActivity(const State& state) : state_(state) {}

  /// The next frame: mean log-mel energy, and the CTC head's probability that it is not blank.
  std::optional<Event> observe(float energy, float token_probability);

  [[nodiscard]] bool speaking() const { return state_.speaking; }
  [[nodiscard]] int64_t frames() const { return state_.frames; }
  /// Frames since the last voiced one; all of them when there was none.
  [[nodiscard]] int64_t unvoiced_frames() const { return state_.frames - 1 - state_.last_voiced; }
  [[nodiscard]] const State& state() const { return state_; }

 private:
  void follow_floor(float energy);

  Options options_;
  State state_;
};

}  // namespace tutti
