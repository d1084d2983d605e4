#include "actors/audio_intake.hpp"

#include <algorithm>
#include <utility>

namespace tutti {

int frame_bytes(const PcmFormat& format) { return bytes_per_sample(format.encoding) * format.channels; }

Result<AudioIntake> AudioIntake::create(const PcmFormat& format, int input_rate, int model_rate) {
  auto resampler = Resampler::create(input_rate, model_rate);
  if (!resampler) return tl::unexpected(std::move(resampler.error()));
  return AudioIntake(format, input_rate, model_rate, std::move(*resampler));
}

AudioIntake::AudioIntake(const PcmFormat& format, int input_rate, int model_rate, Resampler resampler)
    : input_rate_(input_rate),
      model_rate_(model_rate),
      piece_bytes_(int64_t{input_rate} * piece_ms / 1000 * frame_bytes(format)),
      decoder_(format),
      resampler_(std::move(resampler)) {}

void AudioIntake::push(std::span<const std::byte> bytes) {
  // Converted bytes are dropped when they are all or most of the queue: each byte is moved at most once more.
  if (offset_ * 2 >= queue_.size()) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(offset_));
    offset_ = 0;
  }
  queue_.insert(queue_.end(), bytes.begin(), bytes.end());
}

void AudioIntake::convert(int64_t limit, std::vector<float>& out) {
  const int64_t wanted = std::min(std::min(limit, end()) - begin_, piece_bytes_);
  if (wanted <= 0) return;
  const auto size = static_cast<size_t>(wanted);
  frames_.clear();
  decoder_.decode(std::span(queue_).subspan(offset_, size), frames_);
  offset_ += size;
  begin_ += wanted;

  const size_t before = out.size();
  resampler_.process(frames_, out);
  frames_in_ += static_cast<int64_t>(frames_.size());
  samples_out_ += static_cast<int64_t>(out.size() - before);
}

void AudioIntake::flush(std::vector<float>& out) {
  const size_t before = out.size();
  resampler_.flush(out);
  samples_out_ += static_cast<int64_t>(out.size() - before);
  // A flushed signal is rounded to a whole sample, up or down. Segment after segment that would drift.
  const int64_t exact = frames_in_ * model_rate_ / input_rate_;
  const auto correction = std::max(exact - samples_out_, -static_cast<int64_t>(out.size()));
  out.resize(out.size() + static_cast<size_t>(correction), 0.0F);
  samples_out_ += correction;
}

}  // namespace tutti
