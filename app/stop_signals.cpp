#include "app/stop_signals.hpp"

#include <pthread.h>

#include <csignal>
#include <utility>

namespace tutti {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

void block_stop_signals() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

StopSignals::StopSignals(std::function<void(int count)> on_signal)
    : thread_([this, on_signal = std::move(on_signal)] { watch(on_signal); }) {}

StopSignals::~StopSignals() {
  done_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);  // wakes sigwait
  thread_.join();
}

void StopSignals::watch(const std::function<void(int count)>& on_signal) const {
  const sigset_t set = stop_signals();
  for (int count = 1;; ++count) {
    int signal = 0;
    sigwait(&set, &signal);
    if (done_) return;
    on_signal(count);
  }
}

}  // namespace tutti
