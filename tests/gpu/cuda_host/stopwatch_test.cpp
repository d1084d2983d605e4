#include "gpu/stopwatch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "gpu/cuda/cuda_ops.hpp"
#include "tests/gpu/cuda_host/api.hpp"

namespace tutti {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr auto is_behind = [](cuda::Event*, int* yes) { return *yes = 0; };
constexpr auto has_caught_up = [](cuda::Event*, int* yes) {
  *yes = 1;
  return 0;
};
int copies = 0;
constexpr auto counted_copy = [](cuda::Queue* queue, void* to, const void* from, size_t bytes) {
  ++copies;
  return cuda::host::api().copy(queue, to, from, bytes);
};

/// Operations that are one copy each. The clock of the host form's events counts what is done.
class CudaStopwatch : public testing::Test {
 protected:
  void open(int (*reached)(cuda::Event*, int*)) {
    api_ = cuda::host::api();
    api_.reached = reached;
    api_.copy = counted_copy;
    ops_ = make_cuda_ops(api_, 0);
    from_ = ops_->allocate(DType::f32, {1, 8});
    to_ = ops_->allocate(DType::f32, {1, 8});
    stopwatch_ = ops_->make_stopwatch();
  }

  void operations(int count) {
    stopwatch_->mark();
    for (int i = 0; i < count; ++i) ops_->copy(from_, to_);
    stopwatch_->mark();
  }

  void wait() {
    std::vector<float> values(8);
    ops_->download(to_, values);
  }

  cuda::PluginApi api_{};
  std::unique_ptr<Ops> ops_;
  Tensor from_, to_;
  std::unique_ptr<Stopwatch> stopwatch_;
};

TEST_F(CudaStopwatch, TimesWhatLiesBetweenMarksByTheDevicesClockAndWithoutAWait) {
  open(is_behind);
  for (int time = 0; time < 2; ++time) {
    stopwatch_->start();
    const int64_t waits = ops_->device_use().waits;
    operations(1);
    operations(5);
    operations(2);
    EXPECT_EQ(ops_->device_use().waits, waits);
    wait();
    EXPECT_THAT(stopwatch_->marks(), ElementsAre(0, DoubleEq(0.002), DoubleEq(0.003), DoubleEq(0.009),
                                                 DoubleEq(0.010), DoubleEq(0.013)));
  }
}

TEST_F(CudaStopwatch, TellsNoTimesOfADeviceThatRanOutOfWorkAndKeepsItBusyForLongerNextTime) {
  open(has_caught_up);
  for (const int head_start : {1, 2, 4}) {
    copies = 0;
    stopwatch_->start();
    EXPECT_EQ(copies, head_start);
    for (int i = 0; i < 5; ++i) operations(1);
    wait();
    EXPECT_THAT(stopwatch_->marks(), IsEmpty());
  }
}

}  // namespace
}  // namespace tutti
