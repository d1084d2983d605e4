#include "audio/audio_decoder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "audio/container.hpp"
#include "audio/ogg_demuxer.hpp"
#include "audio/opus_framing.hpp"
#include "audio/opus_stream_decoder.hpp"
#include "audio/wav_decoder.hpp"
#include "audio/webm_demuxer.hpp"

namespace tutti {
namespace {

constexpr int piece_ms = 100;

class BareDecoder final : public AudioDecoder {
 public:
  explicit BareDecoder(const AudioFormat& format)
      : decoder_(format.pcm),
        sample_rate_(format.sample_rate),
        piece_bytes_(static_cast<size_t>(int64_t{format.sample_rate} * piece_ms / 1000 *
                                         bytes_per_sample(format.pcm.encoding) * format.pcm.channels)) {}

  Result<void> decode(std::span<const std::byte>& bytes, std::vector<float>& out) override {
    const auto piece = bytes.first(std::min(bytes.size(), piece_bytes_));
    decoder_.decode(piece, out);
    bytes = bytes.subspan(piece.size());
    return {};
  }
  [[nodiscard]] bool has_more() const override { return false; }
  [[nodiscard]] int sample_rate() const override { return sample_rate_; }

 private:
  PcmDecoder decoder_;
  int sample_rate_;
  size_t piece_bytes_;
};

/// Waits for the bytes that tell what the stream is.
class ContainerDecoder final : public AudioDecoder {
 public:
  Result<void> decode(std::span<const std::byte>& bytes, std::vector<float>& out) override {
    if (!decoder_) {
      const size_t missing = std::min(container_magic_bytes - first_bytes_.size(), bytes.size());
      first_bytes_.insert(first_bytes_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(missing));
      bytes = bytes.subspan(missing);
      if (first_bytes_.size() < container_magic_bytes) return {};
      if (auto chosen = choose(); !chosen) return chosen;
      // No decoder has a sample yet after so few bytes.
      std::span<const std::byte> first(first_bytes_);
      if (auto decoded = decoder_->decode(first, out); !decoded) return decoded;
    }
    return decoder_->decode(bytes, out);
  }
  [[nodiscard]] bool has_more() const override { return decoder_ && decoder_->has_more(); }
  [[nodiscard]] int sample_rate() const override { return decoder_ ? decoder_->sample_rate() : 0; }

 private:
  Result<void> choose() {
    const Container container = recognize_container(first_bytes_);
    if (container == Container::wav) {
      decoder_ = std::make_unique<WavDecoder>();
    } else if (container == Container::ogg) {
      decoder_ = std::make_unique<OpusStreamDecoder>(std::make_unique<OggDemuxer>());
    } else if (container == Container::matroska) {
      decoder_ = std::make_unique<OpusStreamDecoder>(std::make_unique<WebmDemuxer>());
    } else {
      return fail("bad_audio", fmt::format("this is {}; accepted are {}, or raw audio with its encoding",
                                           describe(container), accepted_containers));
    }
    return {};
  }

  std::vector<std::byte> first_bytes_;
  std::unique_ptr<AudioDecoder> decoder_;
};

}  // namespace

std::unique_ptr<AudioDecoder> make_audio_decoder(const AudioFormat& format) {
  switch (format.coding) {
    case AudioCoding::opus_packets:
      return std::make_unique<OpusStreamDecoder>(std::make_unique<OpusFrameReader>());
    case AudioCoding::container:
      return std::make_unique<ContainerDecoder>();
    case AudioCoding::pcm:
      break;
  }
  return std::make_unique<BareDecoder>(format);
}

}  // namespace tutti
