#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "audio/audio_decoder.hpp"
#include "audio/resampler.hpp"
#include "config/result.hpp"

namespace tutti {

/// Bytes of one sample frame: a sample of every channel.
[[nodiscard]] int frame_bytes(const PcmFormat& format);

/// A client's bytes on their way to samples at the model's rate: a queue of bytes, converted in pieces of
/// bounded size, so that a message of a megabyte holds no thread for long and never expands in memory at
/// once.
class AudioIntake {
 public:
  /// Audio converted at a time, about.
  static constexpr int piece_ms = 100;

  /// Fails with "bad_sample_rate".
  [[nodiscard]] static Result<AudioIntake> create(const AudioFormat& format, int model_rate);

  void push(std::span<const std::byte> bytes);
  /// Queued so far in all, and converted so far: positions in the client's byte stream.
  [[nodiscard]] int64_t end() const { return begin_ + static_cast<int64_t>(queue_.size() - offset_); }
  [[nodiscard]] int64_t begin() const { return begin_; }
  /// Whether all that the bytes before `position` hold is out.
  [[nodiscard]] bool has_converted(int64_t position) const {
    return begin_ >= position && !decoder_->has_more();
  }

  /// Appends the samples of the next piece, up to position `limit` of the byte stream. Fails with "bad_audio"
  /// or "bad_sample_rate", and is not called again then.
  [[nodiscard]] Result<void> convert(int64_t limit, std::vector<float>& out);
  /// Appends what the converter holds back, so that everything before this point is out. The next audio
  /// starts a new signal on the same clock: after N input frames in all, floor(N * model_rate / input_rate)
  /// samples are out, however often this was called.
  void flush(std::vector<float>& out);

 private:
  AudioIntake(const AudioFormat& format, int model_rate);
  [[nodiscard]] Result<void> set_input_rate(int rate);

  int model_rate_;
  int input_rate_ = 0;  // until it is known
  std::unique_ptr<AudioDecoder> decoder_;
  std::optional<Resampler> resampler_;
  std::vector<std::byte> queue_;
  size_t offset_ = 0;  // of the first byte in queue_ that is not converted
  int64_t begin_ = 0;
  std::vector<float> frames_;  // scratch: decoded, before resampling
  int64_t frames_in_ = 0;
  int64_t samples_out_ = 0;
};

}  // namespace tutti
