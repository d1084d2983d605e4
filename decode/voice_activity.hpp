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

  VoiceActivity() = default;
  explicit VoiceActivity(const Options& options) : options_(options) {}

  /// The next frame: mean log-mel energy, and the CTC head's probability that it is not blank.
  std::optional<Event> observe(float energy, float token_probability);

  [[nodiscard]] bool speaking() const { return speaking_; }
  [[nodiscard]] int64_t frames() const { return frames_; }
  /// Frames since the last voiced one; all of them when there was none.
  [[nodiscard]] int64_t unvoiced_frames() const { return frames_ - 1 - last_voiced_; }

 private:
  void follow_floor(float energy);

  Options options_;
  int64_t frames_ = 0;
  int64_t last_voiced_ = -1;
  int64_t last_token_ = -1000;
  int64_t loud_since_ = 0;  // first frame of the loud run in progress
  bool loud_ = false;
  bool speaking_ = false;
  bool has_floor_ = false;
  float floor_ = 0;
};

}  // namespace tutti
