#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/result.hpp"

namespace tutti {

/// A sound file opened through libsndfile (WAV, FLAC, Ogg, MP3, AIFF, ...), read in pieces.
class AudioFile {
 public:
  /// Fails with "bad_audio_file", naming the file and what libsndfile says of it.
  [[nodiscard]] static Result<AudioFile> open(const std::string& path);

  AudioFile(AudioFile&&) noexcept;
  AudioFile& operator=(AudioFile&&) noexcept;
  ~AudioFile();

  [[nodiscard]] int sample_rate() const;
  [[nodiscard]] int channels() const;
  /// Sample frames in the file, or 0 when the container does not say.
  [[nodiscard]] int64_t frames() const;
  /// Replaces `out` with up to `max_frames` mono samples (channels averaged); empty at the end. 16-bit
  /// sources give exactly sample / 32768; float sources go through clip_sample.
  void read(int64_t max_frames, std::vector<float>& out);

 private:
  struct Impl;
  explicit AudioFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
