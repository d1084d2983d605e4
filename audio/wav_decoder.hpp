#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "audio/audio_decoder.hpp"

namespace tutti {

/// A WAV stream: 16-bit PCM, 32-bit float, mu-law or A-law. Its header may have been written before its
/// length was known, as 0 or more than there can be: then all that follows is audio. What follows a known
/// length is left out.
class WavDecoder final : public AudioDecoder {
 public:
  [[nodiscard]] Result<void> decode(std::span<const std::byte>& bytes, std::vector<float>& out) override;
  [[nodiscard]] bool has_more() const override { return false; }
  [[nodiscard]] int sample_rate() const override { return sample_rate_; }

 private:
  enum class Stage { riff, chunk, format, data };

  /// Collects so many bytes of the header. False while they are not all there.
  [[nodiscard]] bool collect(std::span<const std::byte>& bytes, size_t size);
  [[nodiscard]] Result<void> read_header(std::span<const std::byte>& bytes);
  [[nodiscard]] std::string_view header_name() const;
  void read_chunk();
  [[nodiscard]] Result<void> read_format();
  void skip(std::span<const std::byte>& bytes);

  Stage stage_ = Stage::riff;
  std::vector<std::byte> header_;  // what there is of its next part
  uint32_t format_size_ = 0;
  uint64_t skipped_ = 0;               // still to be skipped, in bytes
  std::optional<uint64_t> data_left_;  // bytes; none when the header does not say
  int sample_rate_ = 0;
  std::unique_ptr<AudioDecoder> samples_;
};

}  // namespace tutti
