#include "app/signal_watch.hpp"

#include <pthread.h>

#include <csignal>
#include <span>
#include <utility>

namespace tutti {
namespace {

sigset_t set_of(std::span<const int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

}  // namespace

void block_signals(std::initializer_list<int> signals) {
  const sigset_t set = set_of(std::span(signals.begin(), signals.size()));
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

SignalWatch::SignalWatch(std::initializer_list<int> signals, std::function<void(int count)> on_signal)
    : signals_(signals), thread_([this, on_signal = std::move(on_signal)] { watch(on_signal); }) {}

SignalWatch::~SignalWatch() {
  done_ = true;
  pthread_kill(thread_.native_handle(), signals_.front());  // wakes sigwait
  thread_.join();
}

void SignalWatch::watch(const std::function<void(int count)>& on_signal) const {
  const sigset_t set = set_of(signals_);
  for (int count = 1;; ++count) {
    int signal = 0;
    sigwait(&set, &signal);
    if (done_) return;
    on_signal(count);
  }
}

}  // namespace tutti
