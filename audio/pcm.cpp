#include "audio/pcm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

namespace tutti {
namespace {

constexpr float int16_scale = 1.0F / 32768.0F;

constexpr int16_t expand_mulaw(uint8_t code) {
  constexpr int bias = 0x84;
  const int inverted = ~code & 0xff;
  const int segment = (inverted & 0x70) >> 4;
  const int magnitude = ((((inverted & 0x0f) << 3) + bias) << segment) - bias;
  return static_cast<int16_t>((inverted & 0x80) != 0 ? -magnitude : magnitude);
}

constexpr int16_t expand_alaw(uint8_t code) {
  const int toggled = code ^ 0x55;
  const int segment = (toggled & 0x70) >> 4;
  const int step = ((toggled & 0x0f) << 4) + 8;
  // Segment 0 continues segment 1 linearly; from segment 1 on there is an implied leading bit.
  const int magnitude = segment == 0 ? step : (step + 0x100) << (segment - 1);
  return static_cast<int16_t>((toggled & 0x80) != 0 ? magnitude : -magnitude);
}

template <int16_t (*Expand)(uint8_t)>
constexpr std::array<int16_t, 256> make_table() {
  std::array<int16_t, 256> table{};
  for (size_t code = 0; code < table.size(); ++code) table[code] = Expand(static_cast<uint8_t>(code));
  return table;
}

constexpr auto mulaw_samples = make_table<expand_mulaw>();
constexpr auto alaw_samples = make_table<expand_alaw>();

uint32_t byte_at(const std::byte* bytes, int index) { return std::to_integer<uint32_t>(bytes[index]); }

float read_s16le(const std::byte* bytes) {
  const uint32_t bits = byte_at(bytes, 0) | byte_at(bytes, 1) << 8;
  return static_cast<float>(static_cast<int16_t>(bits)) * int16_scale;
}

float read_f32le(const std::byte* bytes) {
  const uint32_t bits =
      byte_at(bytes, 0) | byte_at(bytes, 1) << 8 | byte_at(bytes, 2) << 16 | byte_at(bytes, 3) << 24;
  return clip_sample(std::bit_cast<float>(bits));
}

float read_mulaw(const std::byte* bytes) {
  return static_cast<float>(mulaw_samples[byte_at(bytes, 0)]) * int16_scale;
}

float read_alaw(const std::byte* bytes) {
  return static_cast<float>(alaw_samples[byte_at(bytes, 0)]) * int16_scale;
}

/// Appends whole interleaved frames as mono.
template <float (*Read)(const std::byte*)>
void append_frames(const PcmFormat& format, std::span<const std::byte> frames, std::vector<float>& out) {
  const auto sample_bytes = static_cast<size_t>(bytes_per_sample(format.encoding));
  const size_t frame_bytes = sample_bytes * static_cast<size_t>(format.channels);
  const size_t count = frames.size() / frame_bytes;
  const size_t first = out.size();
  out.resize(first + count);
  const bool picks = format.mix == ChannelMix::pick || format.channels == 1;
  const size_t picked_byte = sample_bytes * static_cast<size_t>(format.picked_channel);
  for (size_t i = 0; i < count; ++i) {
    const std::byte* frame = frames.data() + i * frame_bytes;
    if (picks) {
      out[first + i] = Read(frame + picked_byte);
      continue;
    }
    float sum = 0;
    for (size_t byte = 0; byte < frame_bytes; byte += sample_bytes) sum += Read(frame + byte);
    out[first + i] = sum / static_cast<float>(format.channels);
  }
}

void append(const PcmFormat& format, std::span<const std::byte> frames, std::vector<float>& out) {
  switch (format.encoding) {
    case Encoding::pcm_s16le:
      return append_frames<read_s16le>(format, frames, out);
    case Encoding::pcm_f32le:
      return append_frames<read_f32le>(format, frames, out);
    case Encoding::mulaw:
      return append_frames<read_mulaw>(format, frames, out);
    case Encoding::alaw:
      return append_frames<read_alaw>(format, frames, out);
  }
}

}  // namespace

std::optional<Encoding> parse_encoding(std::string_view name) {
  if (name == "pcm_s16le" || name == "linear16") return Encoding::pcm_s16le;
  if (name == "pcm_f32le") return Encoding::pcm_f32le;
  if (name == "mulaw" || name == "ulaw") return Encoding::mulaw;
  if (name == "alaw") return Encoding::alaw;
  return std::nullopt;
}

std::string_view to_string(Encoding encoding) {
  switch (encoding) {
    case Encoding::pcm_s16le:
      return "pcm_s16le";
    case Encoding::pcm_f32le:
      return "pcm_f32le";
    case Encoding::mulaw:
      return "mulaw";
    case Encoding::alaw:
      return "alaw";
  }
  return "unknown";
}

std::string_view accepted_encodings() { return "pcm_s16le, pcm_f32le, mulaw, alaw"; }

int bytes_per_sample(Encoding encoding) {
  switch (encoding) {
    case Encoding::pcm_s16le:
      return 2;
    case Encoding::pcm_f32le:
      return 4;
    case Encoding::mulaw:
    case Encoding::alaw:
      break;
  }
  return 1;
}

float clip_sample(float sample) { return std::isfinite(sample) ? std::clamp(sample, -1.0F, 1.0F) : 0.0F; }

const std::array<int16_t, 256>& mulaw_table() { return mulaw_samples; }
const std::array<int16_t, 256>& alaw_table() { return alaw_samples; }

PcmDecoder::PcmDecoder(const PcmFormat& format) : format_(format) {
  if (format.channels < 1 || format.channels > max_channels) {
    throw std::invalid_argument(
        fmt::format("channels = {}: expected a whole number from 1 to {}", format.channels, max_channels));
  }
  if (format.picked_channel < 0 || format.picked_channel >= format.channels) {
    throw std::invalid_argument(fmt::format("picked channel = {}: expected a whole number from 0 to {}",
                                            format.picked_channel, format.channels - 1));
  }
}

void PcmDecoder::decode(std::span<const std::byte> bytes, std::vector<float>& out) {
  const size_t frame_bytes = static_cast<size_t>(bytes_per_sample(format_.encoding) * format_.channels);
  if (carried_ > 0) {
    const auto missing = bytes.first(std::min(frame_bytes - carried_, bytes.size()));
    std::copy(missing.begin(), missing.end(), carry_.data() + carried_);
    carried_ += missing.size();
    bytes = bytes.subspan(missing.size());
    if (carried_ < frame_bytes) return;
    append(format_, std::span(carry_).first(frame_bytes), out);
    carried_ = 0;
  }
  const auto rest = bytes.last(bytes.size() % frame_bytes);
  append(format_, bytes.first(bytes.size() - rest.size()), out);
  std::copy(rest.begin(), rest.end(), carry_.begin());
  carried_ = rest.size();
}

}  // namespace tutti
