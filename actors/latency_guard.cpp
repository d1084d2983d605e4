#include "actors/latency_guard.hpp"

namespace tutti {

int64_t LatencyGuard::second_of(Clock::time_point now) {
  return std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
}

void LatencyGuard::record(Clock::time_point now, Clock::duration latency) {
  const int64_t second = second_of(now);
  Bucket& bucket = buckets_[static_cast<size_t>(second) % buckets_.size()];
  if (bucket.second != second) bucket = {.second = second};
  ++bucket.chunks;
  if (latency > target_) ++bucket.late;
  if (latency > reopens_at * target_) ++bucket.slow;
}

bool LatencyGuard::is_closed(Clock::time_point now) {
  if (target_.count() == 0) return false;
  const int64_t oldest = second_of(now) - std::ssize(buckets_) + 1;
  Bucket all;
  for (const Bucket& bucket : buckets_) {
    if (bucket.second < oldest) continue;
    all.chunks += bucket.chunks;
    all.late += bucket.late;
    all.slow += bucket.slow;
  }
  // More than a hundredth above a bound is a 99th percentile above it.
  const int64_t above = closed_ ? all.slow : all.late;
  closed_ = all.chunks >= fewest_chunks && above * 100 > all.chunks;
  return closed_;
}

}  // namespace tutti
