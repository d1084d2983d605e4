#include "audio/webm_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "audio/opus_demuxer.hpp"

namespace tutti {
namespace {

constexpr uint64_t second = 1'000'000'000;
constexpr uint64_t longest_time = second * 86'400 * 36'525;  // 100 years
constexpr int64_t nanoseconds_per_3_samples = static_cast<int64_t>(second) * 3 / opus_clock_rate;

}  // namespace

Result<void> WebmTimeline::set_scale(uint64_t nanoseconds) {
  if (nanoseconds < 1 || nanoseconds > second) {
    return fail("bad_audio", fmt::format("a tick of the WebM stream has {} ns; accepted are 1 to {}",
                                         nanoseconds, second));
  }
  scale_ = nanoseconds;
  return {};
}

Result<int64_t> WebmTimeline::place_block(int16_t ticks) {
  if (cluster_ > longest_time / scale_) {
    return fail(
        "bad_audio",
        fmt::format("a cluster of the WebM stream begins after {} ticks of {} ns; accepted are 100 years",
                    cluster_, scale_));
  }
  const int64_t nanoseconds = (static_cast<int64_t>(cluster_) + ticks) * static_cast<int64_t>(scale_);
  const int64_t time = nanoseconds / nanoseconds_per_3_samples * 3;
  if (!base_) base_ = time - position_;
  const int64_t gap = time - *base_ - position_;
  // A small one may be the clock's.
  if (gap >= -OpusDemuxer::gap_tolerance && gap <= OpusDemuxer::gap_tolerance) return 0;
  const int64_t lost = std::clamp<int64_t>(gap, 0, OpusDemuxer::longest_fill);
  position_ += lost;
  base_ = time - position_;
  return lost;
}

int64_t WebmTimeline::samples_in(int64_t nanoseconds, int64_t most) {
  return std::min((std::min<int64_t>(nanoseconds, second) * 3 + nanoseconds_per_3_samples / 2) /
                      nanoseconds_per_3_samples,
                  most);
}

}  // namespace tutti
