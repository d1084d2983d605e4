#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "cache/stream_cache_view.hpp"
#include "decode/voice_activity.hpp"
#include "engine/audio_buffer.hpp"
#include "engine/engine.hpp"

namespace tutti {

/// A segment operation that takes effect when the audio before `sample` has been dealt with.
struct Command {
  enum class Kind : uint8_t { finalize, finish, reset };
  Kind kind = Kind::finalize;
  int64_t sample = 0;
  Clock::time_point arrival;
};

/// First in, first out, at most Engine::max_pending_commands.
class CommandQueue {
 public:
  [[nodiscard]] bool push(const Command& command) {
    if (count_ == commands_.size()) return false;
    commands_[count_++] = command;
    return true;
  }
  void pop() {
    std::copy(commands_.begin() + 1, commands_.begin() + count_, commands_.begin());
    --count_;
  }
  void clear() { count_ = 0; }
  [[nodiscard]] const Command* front() const { return count_ == 0 ? nullptr : commands_.data(); }

 private:
  std::array<Command, Engine::max_pending_commands> commands_{};
  size_t count_ = 0;
};

/// What a stream could run now.
struct ReadyChunk {
  int feature_frames = 0;  ///< of the window, carried rows included
  int64_t end_sample = 0;  ///< one past the last sample the window needs
};

/// Everything the engine knows of one slot's stream. Reused for the slot's next stream.
struct Stream {
  Stream(int64_t audio_capacity, const TensorView& window) : audio(audio_capacity), features(window) {}

  bool open = false;
  bool finishing = false;
  uint32_t generation = 0;
  StreamOptions options;
  std::optional<StreamCacheView> caches;

  AudioBuffer audio;
  TensorView features;  // the next window's rows; the first `carried_rows` are the last window's overlap
  int carried_rows = 0;
  CommandQueue commands;

  Clock::time_point chunk_done{};  // the last
  int64_t commands_done = 0;
  int64_t events = 0;  // finals and voice events said

  int position = 0;  // of the next encoder frame, for the attention's position term
  int32_t segment = 0;
  int64_t segment_sample = 0;   // on the sample clock, of the segment's frame 0
  int64_t reported_sample = 0;  // up to which consumption was reported
  VoiceActivity voice;
  int64_t voice_sample = 0;       // on the sample clock, of frame 0 of `voice`
  std::vector<CtcToken> partial;  // hypothesis of the last partial

  // Of rescoring: the segment's encoder output so far. It outlives its segment until the next forward.
  Tensor encoder_out;  // (max_rescored_frames, D)
  int kept_frames = 0;
};

}  // namespace tutti
