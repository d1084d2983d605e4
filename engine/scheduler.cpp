#include "engine/scheduler.hpp"

#include <algorithm>
#include <tuple>

namespace tutti {

Scheduler::Scheduler(int max_streams, double background_share) : background_share_(background_share) {
  picked_.reserve(static_cast<size_t>(max_streams));
}

std::span<const Candidate> Scheduler::pick(std::span<Candidate> candidates, TickLanes lanes) {
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.stream_class, a.deadline, a.slot) < std::tie(b.stream_class, b.deadline, b.slot);
  });
  const auto first_background =
      std::partition_point(candidates.begin(), candidates.end(),
                           [](const Candidate& c) { return c.stream_class == StreamClass::live; });
  const auto live = static_cast<int>(first_background - candidates.begin());
  const auto background = static_cast<int>(candidates.end() - first_background);

  if (live == 0 && lanes.background == 0) return {};
  const int width = std::min(live + background, lanes.most);
  background_credit_ = background == 0 ? 0 : background_credit_ + background_share_ * width;
  const int owed = std::min({static_cast<int>(background_credit_), background, width});
  const int live_lanes = std::min(live, width - owed);
  const int background_lanes = live > 0 ? owed : std::min(background, lanes.background);
  background_credit_ = std::max(0.0, background_credit_ - background_lanes);

  picked_.assign(candidates.begin(), candidates.begin() + live_lanes);
  picked_.insert(picked_.end(), first_background, first_background + background_lanes);
  return picked_;
}

int LaneLimit::lanes(std::chrono::duration<double> budget) const {
  if (seconds_per_lane_ <= 0) return max_lanes_;
  // Compared before the conversion: a cost near zero must not overflow an int.
  const double affordable = budget.count() / seconds_per_lane_;
  return affordable >= max_lanes_ ? max_lanes_ : std::max(1, static_cast<int>(affordable));
}

void LaneLimit::record(int lanes, Clock::duration cost) {
  const double per_lane = std::chrono::duration<double>(cost).count() / lanes;
  constexpr double weight = 0.2;  // of the newest tick: slow enough to ride over one preempted tick
  seconds_per_lane_ =
      seconds_per_lane_ <= 0 ? per_lane : (1 - weight) * seconds_per_lane_ + weight * per_lane;
}

}  // namespace tutti
