#include "audio/coded_file.hpp"

#include <algorithm>
#include <utility>

#include "audio/container.hpp"
#include "audio/opus_packet.hpp"

namespace tutti {
namespace {

constexpr size_t bytes_per_read = 16 << 10;
// Of an Ogg page (RFC 3533 section 6): its header, which ends with the number of segments and their sizes.
constexpr size_t segment_count_offset = 26;

bool begins_with_opus(std::span<const std::byte> page) {
  if (page.size() <= segment_count_offset) return false;
  const size_t body = segment_count_offset + 1 + std::to_integer<size_t>(page[segment_count_offset]);
  return body < page.size() && parse_opus_head(page.subspan(body)).has_value();
}

}  // namespace

bool CodedFile::recognizes(std::span<const std::byte> first_bytes) {
  const Container container = recognize_container(first_bytes);
  return container == Container::matroska || (container == Container::ogg && begins_with_opus(first_bytes));
}

CodedFile::CodedFile(ReadBytes read_bytes)
    : read_bytes_(std::move(read_bytes)),
      decoder_(make_audio_decoder({.coding = AudioCoding::container})),
      buffer_(bytes_per_read) {}

Result<void> CodedFile::begin() {
  auto decoded = decode_piece();
  if (decoded && sample_rate() == 0) return fail("bad_audio", "it ends before it says what it holds");
  return decoded;
}

void CodedFile::read(int64_t max_samples, std::vector<float>& out) {
  out.clear();
  const auto wanted = static_cast<size_t>(std::max<int64_t>(max_samples, 0));
  while (out.size() < wanted) {
    if (offset_ == samples_.size() && (!decode_piece() || samples_.empty())) return;
    const size_t count = std::min(wanted - out.size(), samples_.size() - offset_);
    const auto first = samples_.begin() + static_cast<ptrdiff_t>(offset_);
    out.insert(out.end(), first, first + static_cast<ptrdiff_t>(count));
    offset_ += count;
  }
}

Result<void> CodedFile::decode_piece() {
  samples_.clear();
  offset_ = 0;
  while (samples_.empty() && !ended_) {
    if (bytes_.empty() && !decoder_->has_more()) {
      bytes_ = std::span(std::as_const(buffer_)).first(read_bytes_(buffer_));
      ended_ = bytes_.empty();
    }
    auto decoded = decoder_->decode(bytes_, samples_);
    ended_ = ended_ || !decoded;
    if (!decoded) return decoded;
  }
  return {};
}

}  // namespace tutti
