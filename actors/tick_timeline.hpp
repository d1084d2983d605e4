#pragma once

#include <memory>

#include "engine/clock.hpp"

namespace tutti {

/// When one tick of an owner did what; the stages follow each other.
struct TickTimeline {
  Clock::time_point begin;
  Clock::duration features{};
  Clock::duration forward{};
  Clock::duration decode{};
  Clock::duration rescore{};
  Clock::time_point recognized;  ///< from here on the results are sent
  int lanes = 0;                 ///< chunks that were forwarded together
};

/// What of a tick concerns one stream. Empty where nobody looks at it.
struct TracedTick {
  std::shared_ptr<const TickTimeline> tick = nullptr;
  Clock::time_point ready{};  ///< when its chunk could have been forwarded; {} = it had none in this tick
  Clock::time_point sent{};   ///< when its results were
};

}  // namespace tutti
