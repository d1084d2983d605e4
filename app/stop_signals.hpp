#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace tutti {

/// Leaves SIGTERM and SIGINT to StopSignals. Call it before any thread is started: threads inherit the mask.
void block_stop_signals();

/// Turns SIGTERM and SIGINT into calls of a function, on a thread of its own. Signals that came since
/// block_stop_signals() count.
class StopSignals {
 public:
  /// Calls `on_signal` with 1 for the first signal, 2 for the second, and so on, until the destruction.
  explicit StopSignals(std::function<void(int count)> on_signal);
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

 private:
  void watch(const std::function<void(int count)>& on_signal) const;

  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace tutti
