#include "proto/media_order.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace tutti::proto {
namespace {

// Frames that wait for an earlier one, whatever is in them.
constexpr size_t max_early_frames = 64;
// Timestamps of frames that follow each other may be off by so much; only more is a gap.
constexpr int64_t jitter_ms = 60;
// Half of the shortest frame there is: a frame that begins so close to the last one's end is the next.
constexpr int64_t same_ms = 5;
// Two years: what is later is no time of a call.
constexpr int64_t latest_ms = int64_t{2} * 366 * 24 * 3600 * 1000;
// A frame each millisecond for two years: what is higher is no number of a frame.
constexpr int64_t highest_number = latest_ms;

/// The code of a sample that is 0, or next to it.
std::byte silence_of(Encoding encoding) {
  switch (encoding) {
    case Encoding::mulaw:
      return std::byte{0xff};
    case Encoding::alaw:
      return std::byte{0xd5};
    case Encoding::pcm_s16le:
    case Encoding::pcm_f32le:
      break;
  }
  return std::byte{0};
}

}  // namespace

MediaOrder::MediaOrder(Encoding encoding, int sample_rate)
    : silence_(silence_of(encoding)),
      bytes_per_second_(static_cast<size_t>(sample_rate) * static_cast<size_t>(bytes_per_sample(encoding))),
      sample_bytes_(static_cast<size_t>(bytes_per_sample(encoding))) {}

size_t MediaOrder::bytes(int64_t ms) const {
  const size_t whole = static_cast<size_t>(ms) * bytes_per_second_ / 1000;
  return whole - whole % sample_bytes_;
}

bool MediaOrder::push(Frame frame) {
  if (frame.number && (*frame.number < 0 || *frame.number > highest_number)) frame.number.reset();
  if (frame.timestamp_ms && (*frame.timestamp_ms < 0 || *frame.timestamp_ms > latest_ms)) {
    frame.timestamp_ms.reset();
  }
  if (!frame.number) {
    admit(std::move(frame), true);
    return true;
  }
  const int64_t number = *frame.number;
  if (!next_) next_ = std::min<int64_t>(number, 1);
  const size_t size = frame.payload.size();
  if (number < *next_ || !early_.emplace(number, std::move(frame)).second) return false;
  early_bytes_ += size;
  release();
  return true;
}

/// By its number, or by its time where the tracks of a call are numbered together.
bool MediaOrder::is_next(int64_t number, const Frame& frame) const {
  if (number == *next_) return true;
  if (!frame.timestamp_ms || end_ == 0) return false;
  return std::abs(static_cast<int64_t>(bytes(*frame.timestamp_ms)) - end_) <=
         static_cast<int64_t>(bytes(same_ms));
}

void MediaOrder::release() {
  while (!early_.empty()) {
    const bool follows = is_next(early_.begin()->first, early_.begin()->second);
    const bool is_enough = early_bytes_ >= bytes(patience_ms) || early_.size() > max_early_frames;
    if (!follows && !is_enough) return;
    auto frame = early_.extract(early_.begin());
    early_bytes_ -= frame.mapped().payload.size();
    next_ = frame.key() + 1;
    admit(std::move(frame.mapped()), follows);
  }
}

/// The silence that puts the frame into its place.
size_t MediaOrder::fill_before(const Frame& frame, bool follows) const {
  if (!frame.timestamp_ms) return 0;
  const auto place = static_cast<int64_t>(bytes(*frame.timestamp_ms));
  const int64_t missing = place - end_;
  if (missing <= (follows ? static_cast<int64_t>(bytes(jitter_ms)) : 0)) return 0;
  const size_t room = bytes(longest_fill_ms) - std::min(bytes(longest_fill_ms), ready_bytes_);
  return std::min(static_cast<size_t>(missing), room - room % sample_bytes_);
}

void MediaOrder::admit(Frame frame, bool follows) {
  const size_t silence = fill_before(frame, follows);
  const size_t total = silence + frame.payload.size();
  end_ += static_cast<int64_t>(total);
  ready_bytes_ += total;
  ready_.push_back({silence, std::move(frame.payload)});
}

std::vector<std::byte> MediaOrder::take() {
  std::vector<std::byte> audio;
  size_t most = bytes(longest_take_ms);
  while (!ready_.empty()) {
    Piece& piece = ready_.front();
    const size_t silence = std::min(piece.silence, most);
    audio.insert(audio.end(), silence, silence_);
    most -= silence;
    piece.silence -= silence;
    if (piece.silence > 0) break;
    audio.insert(audio.end(), piece.payload.begin(), piece.payload.end());
    ready_.pop_front();
  }
  ready_bytes_ -= audio.size();
  return audio;
}

std::vector<std::byte> MediaOrder::flush() {
  while (!early_.empty()) {
    const bool follows = is_next(early_.begin()->first, early_.begin()->second);
    auto frame = early_.extract(early_.begin());
    next_ = frame.key() + 1;
    admit(std::move(frame.mapped()), follows);
  }
  early_bytes_ = 0;
  std::vector<std::byte> audio;
  while (!ready_.empty()) {
    const auto part = take();
    audio.insert(audio.end(), part.begin(), part.end());
  }
  return audio;
}

}  // namespace tutti::proto
