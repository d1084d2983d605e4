#pragma once

#include <atomic>
#include <stdexcept>

#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/forwarding_ops.hpp"
#include "tests/engine/engine_fixture.hpp"

namespace tutti {

/// When the devices of a test fail: shared by all their Ops.
struct FaultPlan {
  std::atomic<int> ticks_left{-1};  ///< until one throws; negative = never
  std::atomic<bool> hangs{false};   ///< instead
  std::atomic<bool> released{false};
};

/// The operations of another Ops, one of whose ticks throws or does not come to an end before it is told to.
class FaultyOps final : public ForwardingOps {
 public:
  FaultyOps(std::unique_ptr<Ops> ops, std::shared_ptr<FaultPlan> plan)
      : ForwardingOps(std::move(ops)), plan_(std::move(plan)) {}

  void fbank(const PackedFbank& tables, std::span<const FbankJob> jobs) override {
    if (plan_->ticks_left.fetch_sub(1) == 0) {
      if (!plan_->hangs) throw std::runtime_error("the device of this test has failed");
      plan_->released.wait(false);
    }
    ForwardingOps::fbank(tables, jobs);
  }

 private:
  std::shared_ptr<FaultPlan> plan_;
};

/// An engine of the bundled model on such a device.
inline std::unique_ptr<Engine> make_faulty_engine(const std::shared_ptr<FaultPlan>& plan) {
  return std::make_unique<Engine>(bundled_model(), std::make_unique<FaultyOps>(make_cpu_ops(), plan),
                                  greedy_config());
}

}  // namespace tutti
