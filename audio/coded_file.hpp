#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "audio/audio_decoder.hpp"

namespace tutti {

/// A file that is decoded as a live stream of the same bytes is, to the same samples: Opus in Ogg or WebM.
class CodedFile {
 public:
  /// So many of the first bytes tell whether a file is one.
  static constexpr size_t header_bytes = 512;
  [[nodiscard]] static bool recognizes(std::span<const std::byte> first_bytes);

  /// Fills a buffer with the next bytes; returns how many, 0 at the end.
  using ReadBytes = std::function<size_t(std::span<std::byte> buffer)>;
  explicit CodedFile(ReadBytes read_bytes);

  /// Decodes up to the first samples. Fails with "bad_audio" when what comes instead cannot be read.
  [[nodiscard]] Result<void> begin();
  [[nodiscard]] int sample_rate() const { return decoder_->sample_rate(); }
  /// Replaces `out` with up to `max_samples`; empty at the end, or where the file is broken.
  void read(int64_t max_samples, std::vector<float>& out);

 private:
  [[nodiscard]] Result<void> decode_piece();

  ReadBytes read_bytes_;
  std::unique_ptr<AudioDecoder> decoder_;
  std::vector<std::byte> buffer_;
  std::span<const std::byte> bytes_;  // in buffer_, not yet decoded
  std::vector<float> samples_;        // decoded, up to a piece
  size_t offset_ = 0;                 // of the first in samples_ that was not read
  bool ended_ = false;
};

}  // namespace tutti
