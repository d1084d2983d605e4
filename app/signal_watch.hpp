#pragma once

#include <atomic>
#include <functional>
#include <initializer_list>
#include <thread>
#include <vector>

namespace tutti {

/// Leaves signals to a SignalWatch. Call it before any thread is started: threads inherit the mask.
void block_signals(std::initializer_list<int> signals);

/// Turns signals into calls of a function, on a thread of its own. Those that came since block_signals()
/// count.
class SignalWatch {
 public:
  /// Calls `on_signal` with 1 for the first of the `signals` that comes, 2 for the second, and so on, until
  /// the destruction.
  SignalWatch(std::initializer_list<int> signals, std::function<void(int count)> on_signal);
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  ~SignalWatch();

 private:
  void watch(const std::function<void(int count)>& on_signal) const;

  std::vector<int> signals_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace tutti
