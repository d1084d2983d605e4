#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "audio/pcm.hpp"
#include "audio/resampler.hpp"
#include "config/result.hpp"

namespace tutti {

/// Bytes of one sample frame: a sample of every channel.
[[nodiscard]] int frame_bytes(const PcmFormat& format);

/// A client's bytes on their way to samples at the model's rate: a queue of bytes, converted in pieces of
/// fixed size, so that a message of a megabyte holds no thread for long and never expands in memory at once.
class AudioIntake {
 public:
  /// Audio converted at a time.
  static constexpr int piece_ms = 100;

  /// Fails with "bad_sample_rate".
  [[nodiscard]] static Result<AudioIntake> create(const PcmFormat& format, int input_rate, int model_rate);

  void push(std::span<const std::byte> bytes);
  /// Queued so far in all, and converted so far: positions in the client's byte stream.
  [[nodiscard]] int64_t end() const { return begin_ + static_cast<int64_t>(queue_.size() - offset_); }
  [[nodiscard]] int64_t begin() const { return begin_; }

  /// Appends the samples of the next piece, up to position `limit` of the byte stream.
  void convert(int64_t limit, std::vector<float>& out);
  /// Appends what the converter holds back, so that everything before this point is out. The next audio
  /// starts a new signal on the same clock: after N input frames in all, floor(N * model_rate / input_rate)
  /// samples are out, however often this was called.
  void flush(std::vector<float>& out);

 private:
  AudioIntake(const PcmFormat& format, int input_rate, int model_rate, Resampler resampler);

  int input_rate_;
  int model_rate_;
  int64_t piece_bytes_;
  PcmDecoder decoder_;
  Resampler resampler_;
  std::vector<std::byte> queue_;
  size_t offset_ = 0;  // of the first byte in queue_ that is not converted
  int64_t begin_ = 0;
  std::vector<float> frames_;  // scratch: decoded, before resampling
  int64_t frames_in_ = 0;
  int64_t samples_out_ = 0;
};

}  // namespace tutti
