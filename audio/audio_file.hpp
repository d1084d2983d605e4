#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/result.hpp"

namespace tutti {

/// A sound file opened through libsndfile (WAV, FLAC, Ogg, MP3, AIFF, ...), read in pieces.
class AudioFile {
 public:
  /// Fails with "bad_audio_file", naming the file and what libsndfile says of it.
  [[nodiscard]] static Result<AudioFile> open(const std::string& path);

  /// The same of a file in memory, which outlives this; `name` stands for it in messages.
  [[nodiscard]] static Result<AudioFile> open_memory(std::span<const std::byte> bytes,
                                                     const std::string& name);

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
  static Result<AudioFile> checked(std::unique_ptr<Impl> impl, const std::string& name);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
