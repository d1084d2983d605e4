#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tutti {

/// Mono samples in [-1, 1) as the bytes of pcm_s16le, rounded to nearest and clipped.
[[nodiscard]] std::string to_s16le(std::span<const float> samples);

/// Where a client's audio comes from: mono s16le.
class AudioSource {
 public:
  enum class State : uint8_t {
    data,
    waiting,  ///< nothing now; ask again
    end,
  };
  virtual ~AudioSource() = default;
  [[nodiscard]] virtual int sample_rate() const = 0;
  /// Replaces `bytes` with up to about `max_samples` samples; never waits.
  virtual State read(int64_t max_samples, std::string& bytes) = 0;
};

/// A file that libsndfile reads, at its own rate, channels averaged. Throws SetupError when it cannot be
/// opened.
[[nodiscard]] std::unique_ptr<AudioSource> open_audio_file(const std::string& path);

/// Raw s16le from a pipe or file descriptor, which stays the caller's.
[[nodiscard]] std::unique_ptr<AudioSource> open_raw_audio(int descriptor, int sample_rate);

}  // namespace tutti
