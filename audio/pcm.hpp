#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tutti {

inline constexpr int max_channels = 64;

enum class Encoding : uint8_t { pcm_s16le, pcm_f32le, mulaw, alaw };

/// Accepts the names of the wire: pcm_s16le, pcm_f32le, mulaw, alaw (and linear16, ulaw).
[[nodiscard]] std::optional<Encoding> parse_encoding(std::string_view name);
[[nodiscard]] std::string_view to_string(Encoding encoding);
/// "pcm_s16le, pcm_f32le, mulaw, alaw", for messages.
[[nodiscard]] std::string_view accepted_encodings();
[[nodiscard]] int bytes_per_sample(Encoding encoding);

/// How interleaved channels become one. `pick` takes the channel with index `picked_channel`.
enum class ChannelMix : uint8_t { average, pick };

struct PcmFormat {
  Encoding encoding = Encoding::pcm_s16le;
  int channels = 1;
  ChannelMix mix = ChannelMix::average;
  int picked_channel = 0;
};

/// Bytes to mono float samples; integers and G.711 become sample / 32768, in [-1, 1). A sample (or an
/// interleaved frame of samples) split between two calls is carried over. Non-finite floats become 0, floats
/// outside [-1, 1] are clipped.
class PcmDecoder {
 public:
  /// Throws std::invalid_argument unless 1 <= channels <= max_channels and 0 <= picked_channel < channels.
  explicit PcmDecoder(const PcmFormat& format);
  /// Appends the samples that `bytes` completes.
  void decode(std::span<const std::byte> bytes, std::vector<float>& out);
  /// Bytes of an incomplete frame waiting for the rest.
  [[nodiscard]] size_t carried_bytes() const { return carried_; }

 private:
  PcmFormat format_;
  std::array<std::byte, sizeof(float) * max_channels> carry_{};  // the widest frame
  size_t carried_ = 0;
};

/// What untrusted float samples go through: 0 when not finite, else clipped to [-1, 1].
[[nodiscard]] float clip_sample(float sample);

/// G.711 code byte to 16-bit sample (ITU-T G.711).
[[nodiscard]] const std::array<int16_t, 256>& mulaw_table();
[[nodiscard]] const std::array<int16_t, 256>& alaw_table();

}  // namespace tutti
