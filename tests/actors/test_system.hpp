#pragma once

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <chrono>

namespace tutti::test {

/// Actors that run when told to, one message at a time, in this thread.
class TestSystem {
 public:
  caf::actor_system& operator*() { return system_; }
  caf::actor_system* operator->() { return &system_; }

  /// Until no message is left.
  void run() {
    while (scheduler().try_run_once()) {
    }
  }
  void advance(std::chrono::seconds time) {
    scheduler().advance_time(time);
    run();
  }

 private:
  struct Config : caf::actor_system_config {
    Config() { set("scheduler.policy", caf::atom("testing")); }
  };

  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler());
  }

  Config config_;
  caf::actor_system system_{config_};
};

}  // namespace tutti::test
