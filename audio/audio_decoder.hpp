#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "audio/pcm.hpp"
#include "config/result.hpp"

namespace tutti {

/// How audio comes in a stream of bytes.
enum class AudioCoding : uint8_t {
  pcm,           ///< bare samples
  opus_packets,  ///< as audio/opus_framing.hpp puts them into one stream
  container,     ///< WAV, Ogg with Opus or WebM with Opus, told by its first bytes
};

struct AudioFormat {
  AudioCoding coding = AudioCoding::pcm;
  PcmFormat pcm = {};       ///< of bare samples; else the stream says
  int sample_rate = 16000;  ///< the same, in Hz
};

/// Turns the bytes of one stream into mono samples, a piece at a time: what a few bytes may expand to is
/// never there at once. The samples do not depend on how the bytes are cut. Its input is untrusted.
class AudioDecoder {
 public:
  /// Audio that one call appends: 120 ms at most.
  static constexpr int longest_piece_ms = 120;

  virtual ~AudioDecoder() = default;

  /// Takes bytes from the front of `bytes` and appends the next samples. Comes back with samples, or when all
  /// bytes are taken and nothing can be said before more come. Fails with "bad_audio", then and from then on:
  /// what is wrong, where, and what is accepted.
  [[nodiscard]] virtual Result<void> decode(std::span<const std::byte>& bytes, std::vector<float>& out) = 0;
  /// Whether another call, without bytes, may have an effect.
  [[nodiscard]] virtual bool has_more() const = 0;
  /// Of the samples, in Hz: the same from the first of them on.
  [[nodiscard]] virtual int sample_rate() const = 0;
};

/// Throws std::invalid_argument where PcmDecoder does.
[[nodiscard]] std::unique_ptr<AudioDecoder> make_audio_decoder(const AudioFormat& format);

}  // namespace tutti
