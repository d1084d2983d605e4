#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "audio/opus_packet.hpp"

struct OpusDecoder;  // of libopus

namespace tutti {

/// Opus packets to mono float samples at 16 kHz. Opus decodes to that rate by itself, which costs a quarter
/// of decoding to 48 kHz and resampling, delays nothing, and is at least as close to what was encoded; a
/// second channel is mixed in as it decodes, as the average.
class OpusPacketDecoder {
 public:
  static constexpr int sample_rate = 16000;

  OpusPacketDecoder();

  /// A new stream: what was decoded before has no effect on it, and its pre-skip is left out. Samples go on
  /// counting.
  void begin(const OpusHead& head);

  /// Appends the samples of a packet, but for the last `discarded` (at 48 kHz) of them: floor(N / 3) in all
  /// for the N at 48 kHz that are neither pre-skip nor discarded. False when it is no Opus packet.
  [[nodiscard]] bool decode(std::span<const std::byte> packet, int64_t discarded, std::vector<float>& out);

  /// Appends `samples` (at 16 kHz) in the place of what was lost: at first what the decoder makes of the
  /// sound before, then silence.
  void conceal(int64_t samples, std::vector<float>& out);

 private:
  struct Destroy {
    void operator()(::OpusDecoder* state) const;
  };

  /// Decodes a packet, or conceals where it is empty, to `scratch_`. Returns the samples, or an error of
  /// libopus.
  [[nodiscard]] int run(std::span<const std::byte> packet, int64_t most_samples);
  void append(int64_t first, int64_t count, std::vector<float>& out) const;

  std::unique_ptr<::OpusDecoder, Destroy> state_;
  std::vector<float> scratch_;  // one packet
  int64_t skip_ = 0;            // of the pre-skip, at 48 kHz, not yet left out
  int64_t kept_ = 0;            // at 48 kHz, neither pre-skip nor discarded
  int64_t emitted_ = 0;         // kept_ / 3
  int64_t concealed_ = 0;       // since the last packet
  bool has_decoded_ = false;
};

}  // namespace tutti
