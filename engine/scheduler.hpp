#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/clock.hpp"

namespace tutti {

enum class StreamClass : uint8_t {
  live,        ///< a person waits for each chunk
  background,  ///< an upload: runs while no live stream waits, with a guaranteed share
};

/// A stream with a chunk that could run now.
struct Candidate {
  int slot = 0;
  Clock::time_point deadline;
  StreamClass stream_class = StreamClass::live;
};

/// Lanes that a tick may have.
struct TickLanes {
  int most = 1;
  int background = 1;  ///< when no live stream is ready; 0 while uploads rest
};

/// Chooses which chunks share the next tick: earliest deadline first among live streams, whose ticks
/// background streams join only to get the `background_share` of all lanes that they are guaranteed while
/// they wait: every lane makes a tick longer. Background streams have the ticks that no live stream is ready
/// for. Since a deadline only comes nearer, nobody starves.
class Scheduler {
 public:
  /// Holds up to `max_streams` candidates without allocating.
  explicit Scheduler(int max_streams, double background_share = 0.1);

  /// Reorders `candidates` and returns the chosen ones.
  std::span<const Candidate> pick(std::span<Candidate> candidates, TickLanes lanes);

 private:
  double background_share_;
  double background_credit_ = 0;  // lanes owed to waiting background streams
  std::vector<Candidate> picked_;
};

/// Holds a tick to a budget by its number of lanes, from the processor time that the last ticks took.
class LaneLimit {
 public:
  explicit LaneLimit(int max_lanes) : max_lanes_(max_lanes) {}
  /// At least 1.
  [[nodiscard]] int lanes(std::chrono::duration<double> budget) const;
  void record(int lanes, Clock::duration cost);

 private:
  int max_lanes_;
  double seconds_per_lane_ = 0;
};

/// Rests of uploads beside live streams. A device they keep busy leaves no core to the threads that bring
/// audio and take results, so a tick of uploads alone is followed by a rest three times as long.
class BackgroundPace {
 public:
  void record(Clock::time_point start, Clock::time_point end) { resumes_ = end + 3 * (end - start); }
  /// Zero or less when there is none.
  [[nodiscard]] Clock::duration rest(Clock::time_point now) const { return resumes_ - now; }

 private:
  Clock::time_point resumes_{};
};

}  // namespace tutti
