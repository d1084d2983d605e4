#include "actors/audio_intake.hpp"

#include <algorithm>
#include <utility>

namespace tutti {

int frame_bytes(const PcmFormat& format) { return bytes_per_sample(format.encoding) * format.channels; }

Result<AudioIntake> AudioIntake::create(const AudioFormat& format, int model_rate) {
  AudioIntake intake(format, model_rate);
  if (format.coding == AudioCoding::pcm) {
    if (auto set = intake.set_input_rate(format.sample_rate); !set)
      return tl::unexpected(std::move(set.error()));
  }
  return intake;
}

AudioIntake::AudioIntake(const AudioFormat& format, int model_rate)
    : model_rate_(model_rate), decoder_(make_audio_decoder(format)) {}

Result<void> AudioIntake::set_input_rate(int rate) {
  auto resampler = Resampler::create(rate, model_rate_);
  if (!resampler) return tl::unexpected(std::move(resampler.error()));
  resampler_ = std::move(*resampler);
  input_rate_ = rate;
  return {};
}

void AudioIntake::push(std::span<const std::byte> bytes) {
  // Converted bytes are dropped when they are all or most of the queue: each byte is moved at most once more.
  if (offset_ * 2 >= queue_.size()) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(offset_));
    offset_ = 0;
  }
  queue_.insert(queue_.end(), bytes.begin(), bytes.end());
}

Result<void> AudioIntake::convert(int64_t limit, std::vector<float>& out) {
  const int64_t wanted = std::max<int64_t>(std::min(limit, end()) - begin_, 0);
  auto bytes = std::span(std::as_const(queue_)).subspan(offset_, static_cast<size_t>(wanted));
  frames_.clear();
  auto decoded = decoder_->decode(bytes, frames_);
  const auto taken = static_cast<size_t>(wanted) - bytes.size();
  offset_ += taken;
  begin_ += static_cast<int64_t>(taken);
  if (!decoded || frames_.empty()) return decoded;

  if (!resampler_) {
    if (auto set = set_input_rate(decoder_->sample_rate()); !set) return set;
  }
  const size_t before = out.size();
  resampler_->process(frames_, out);
  frames_in_ += static_cast<int64_t>(frames_.size());
  samples_out_ += static_cast<int64_t>(out.size() - before);
  return {};
}

void AudioIntake::flush(std::vector<float>& out) {
  if (!resampler_) return;
  const size_t before = out.size();
  resampler_->flush(out);
  samples_out_ += static_cast<int64_t>(out.size() - before);
  // A flushed signal is rounded to a whole sample, up or down. Segment after segment that would drift.
  const int64_t exact = frames_in_ * model_rate_ / input_rate_;
  const auto correction = std::max(exact - samples_out_, -static_cast<int64_t>(out.size()));
  out.resize(out.size() + static_cast<size_t>(correction), 0.0F);
  samples_out_ += correction;
}

}  // namespace tutti
