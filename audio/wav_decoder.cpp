#include "audio/wav_decoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "audio/resampler.hpp"

namespace tutti {
namespace {

constexpr size_t riff_bytes = 12;
constexpr size_t chunk_header_bytes = 8;
constexpr size_t short_format_bytes = 16;
// With the extension, whose first 16 bits are the format's tag.
constexpr size_t long_format_bytes = 26;
// No file is longer: such a length stands for an unknown one.
constexpr uint32_t unknown_length = 0x7fff0000;

constexpr int tag_pcm = 1;
constexpr int tag_float = 3;
constexpr int tag_alaw = 6;
constexpr int tag_mulaw = 7;
constexpr int tag_extensible = 0xfffe;

uint32_t read_bits(std::span<const std::byte> bytes, size_t offset, size_t size) {
  uint32_t value = 0;
  for (size_t i = size; i-- > 0;) value = value << 8 | std::to_integer<uint32_t>(bytes[offset + i]);
  return value;
}

int read_16(std::span<const std::byte> bytes, size_t offset) {
  return static_cast<int>(read_bits(bytes, offset, 2));
}

std::optional<Encoding> encoding_of(int tag, int bits) {
  if (tag == tag_pcm && bits == 16) return Encoding::pcm_s16le;
  if (tag == tag_float && bits == 32) return Encoding::pcm_f32le;
  if (tag == tag_alaw && bits == 8) return Encoding::alaw;
  if (tag == tag_mulaw && bits == 8) return Encoding::mulaw;
  return std::nullopt;
}

}  // namespace

Result<void> WavDecoder::decode(std::span<const std::byte>& bytes, std::vector<float>& out) {
  while (stage_ != Stage::data || skipped_ > 0) {
    if (skipped_ > 0) {
      skip(bytes);
      if (skipped_ > 0) return {};
      continue;
    }
    if (bytes.empty()) return {};
    if (auto read = read_header(bytes); !read) return read;
  }
  auto audio = bytes;
  if (data_left_) audio = audio.first(std::min<uint64_t>(*data_left_, audio.size()));
  const size_t before = audio.size();
  if (auto decoded = samples_->decode(audio, out); !decoded) return decoded;
  const size_t taken = before - audio.size();
  bytes = bytes.subspan(taken);
  if (!data_left_) return {};
  *data_left_ -= taken;
  if (*data_left_ == 0) bytes = {};
  return {};
}

bool WavDecoder::collect(std::span<const std::byte>& bytes, size_t size) {
  const size_t missing = std::min(size - std::min(size, header_.size()), bytes.size());
  header_.insert(header_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(missing));
  bytes = bytes.subspan(missing);
  return header_.size() >= size;
}

void WavDecoder::skip(std::span<const std::byte>& bytes) {
  const uint64_t size = std::min<uint64_t>(skipped_, bytes.size());
  bytes = bytes.subspan(size);
  skipped_ -= size;
}

Result<void> WavDecoder::read_header(std::span<const std::byte>& bytes) {
  if (stage_ == Stage::riff && collect(bytes, riff_bytes)) {
    if (const auto name = header_name(); name != "RIFF" && name != "RF64") {
      return fail("bad_audio", "the WAV stream is big-endian (RIFX); accepted are RIFF and RF64");
    }
    stage_ = Stage::chunk;
    header_.clear();
  } else if (stage_ == Stage::chunk && collect(bytes, chunk_header_bytes)) {
    if (const std::string_view name(reinterpret_cast<const char*>(header_.data()), 4);
        name == "data" && !samples_) {
      return fail("bad_audio", "the WAV stream has no format before its audio");
    }
    read_chunk();
    header_.clear();
  } else if (stage_ == Stage::format && collect(bytes, std::min<size_t>(format_size_, long_format_bytes))) {
    auto read = read_format();
    header_.clear();
    return read;
  }
  return {};
}

std::string_view WavDecoder::header_name() const {
  return {reinterpret_cast<const char*>(header_.data()), 4};
}

void WavDecoder::read_chunk() {
  const std::string_view name = header_name();
  const uint32_t size = read_bits(header_, 4, 4);
  if (name == "data") {
    stage_ = Stage::data;
    if (size > 0 && size < unknown_length) data_left_ = size;
  } else if (name == "fmt " && !samples_ && size > 0) {
    stage_ = Stage::format;
    format_size_ = size;
  } else {
    skipped_ = uint64_t{size} + size % 2;
  }
}

Result<void> WavDecoder::read_format() {
  if (header_.size() < short_format_bytes) {
    return fail("bad_audio", fmt::format("the format of the WAV stream has {} bytes; it has {} at least",
                                         header_.size(), short_format_bytes));
  }
  int tag = read_16(header_, 0);
  const int channels = read_16(header_, 2);
  const uint32_t rate = read_bits(header_, 4, 4);
  const int bits = read_16(header_, 14);
  if (tag == tag_extensible && header_.size() >= long_format_bytes) tag = read_16(header_, 24);
  const auto encoding = encoding_of(tag, bits);
  if (!encoding) {
    return fail("bad_audio",
                fmt::format("the WAV stream has samples of format {} and {} bits; accepted are 16-bit PCM "
                            "(1), 32-bit float (3), A-law (6) and mu-law (7)",
                            tag, bits));
  }
  if (channels < 1 || channels > max_channels) {
    return fail("bad_audio",
                fmt::format("the WAV stream has {} channels; accepted are 1 to {}", channels, max_channels));
  }
  if (rate < uint32_t{min_sample_rate} || rate > uint32_t{max_sample_rate}) {
    return fail("bad_audio", fmt::format("the WAV stream has a sample rate of {}; accepted are {} to {} Hz",
                                         rate, min_sample_rate, max_sample_rate));
  }
  sample_rate_ = static_cast<int>(rate);
  samples_ = make_audio_decoder({.coding = AudioCoding::pcm,
                                 .pcm = {.encoding = *encoding, .channels = channels},
                                 .sample_rate = sample_rate_});
  stage_ = Stage::chunk;
  skipped_ = format_size_ - header_.size() + format_size_ % 2;
  return {};
}

}  // namespace tutti
