#pragma once

#include <chrono>
#include <span>
#include <vector>

namespace tutti {

/// Times what an Ops computes, between marks that are put among its operations and by the clock of what
/// computes them: nothing is waited for. Made by an Ops, and used by its thread alone, which destroys it
/// first.
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;

  /// Begins anew, without marks.
  virtual void start() = 0;
  /// Puts a mark behind the operations so far.
  virtual void mark() = 0;
  /// Seconds from the first mark to each, once somebody has waited for what was asked for before the last.
  /// Nothing where the device ran out of work between them: it would be the host that is timed. Valid until
  /// `start`.
  [[nodiscard]] virtual std::span<const double> marks() = 0;
};

/// For operations that are done when they return.
class HostStopwatch final : public Stopwatch {
 public:
  void start() override { seconds_.clear(); }
  void mark() override {
    const auto now = std::chrono::steady_clock::now();
    if (seconds_.empty()) first_ = now;
    seconds_.push_back(std::chrono::duration<double>(now - first_).count());
  }
  [[nodiscard]] std::span<const double> marks() override { return seconds_; }

 private:
  std::chrono::steady_clock::time_point first_;
  std::vector<double> seconds_;
};

}  // namespace tutti
