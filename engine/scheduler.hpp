#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/clock.hpp"

namespace tutti {

enum class StreamClass : uint8_t {
  live,        ///< a person waits for each chunk
  background,  ///< an upload: fills the lanes live streams leave, with a guaranteed share
};

/// A stream with a chunk that could run now.
struct Candidate {
  int slot = 0;
  Clock::time_point deadline;
  StreamClass stream_class = StreamClass::live;
};

/// Chooses which chunks share the next tick: earliest deadline first among live streams; background streams
/// fill the remaining lanes and are guaranteed `background_share` of all lanes over time while they wait.
/// Since a deadline only comes nearer, nobody starves.
class Scheduler {
 public:
  /// Holds up to `max_streams` candidates without allocating.
  explicit Scheduler(int max_streams, double background_share = 0.1);

  /// Reorders `candidates` and returns the chosen ones, at most `lanes`.
  std::span<const Candidate> pick(std::span<Candidate> candidates, int lanes);

 private:
  double background_share_;
  double background_credit_ = 0;  // lanes owed to waiting background streams
  std::vector<Candidate> picked_;
};

/// Holds a tick to a budget by its number of lanes, from the processor time that the last ticks took.
class LaneLimit {
 public:
  LaneLimit(int max_lanes, std::chrono::milliseconds budget);
  [[nodiscard]] int lanes() const;
  void record(int lanes, Clock::duration cost);

 private:
  int max_lanes_;
  double budget_seconds_;
  double seconds_per_lane_ = 0;
};

}  // namespace tutti
