#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace tutti {

/// Turns SIGTERM and SIGINT into calls of a function, on a thread of its own. Construct it before any other
/// thread: threads inherit the mask that leaves these signals to it.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  /// Calls `on_signal` with 1 for the first signal, 2 for the second, and so on, until the destruction.
  /// Signals that came earlier count.
  void watch(std::function<void(int count)> on_signal);

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace tutti
