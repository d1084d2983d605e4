#include "engine/audio_buffer.hpp"

#include <algorithm>

namespace tutti {

bool AudioBuffer::append(std::span<const float> samples, Clock::time_point arrival) {
  const auto count = static_cast<int64_t>(samples.size());
  if (size_ + count > capacity_) return false;
  if (offset_ + size_ + count > capacity_) {
    std::copy_n(samples_.get() + offset_, size_, samples_.get());
    offset_ = 0;
  }
  std::copy_n(samples.data(), count, samples_.get() + offset_ + size_);
  size_ += count;
  end_ += count;
  if (arrivals_count_ == arrivals_.size()) {
    arrivals_.back().end = end_;
  } else {
    arrivals_[arrivals_count_++] = {end_, arrival};
  }
  return true;
}

void AudioBuffer::drop_until(int64_t sample) {
  const int64_t dropped = std::clamp<int64_t>(sample - begin(), 0, size_);
  offset_ += dropped;
  size_ -= dropped;
  if (size_ == 0) offset_ = 0;
  const auto* const first = arrivals_.begin();
  const auto* const kept =
      std::find_if(first, first + arrivals_count_, [this](const Arrival& a) { return a.end > begin(); });
  const auto gone = static_cast<size_t>(kept - first);
  std::copy(kept, first + arrivals_count_, arrivals_.begin());
  arrivals_count_ -= gone;
}

void AudioBuffer::restart(int64_t sample) {
  offset_ = size_ = 0;
  end_ = sample;
  arrivals_count_ = 0;
}

Clock::time_point AudioBuffer::arrival_of(int64_t sample) const {
  for (size_t i = 0; i < arrivals_count_; ++i) {
    if (arrivals_[i].end >= sample) return arrivals_[i].time;
  }
  return arrivals_count_ == 0 ? Clock::time_point{} : arrivals_[arrivals_count_ - 1].time;
}

}  // namespace tutti
