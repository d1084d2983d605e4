#include "tests/gpu/cuda_host/block.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "gpu/cuda/intrinsics.cuh"
#include "tests/gpu/cuda_host/api.hpp"

namespace tutti::cuda::host {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr unsigned all_lanes = 0xffffffffU;

struct Row {
  SharedArray<int, 64> values;
};

void run(dim3 grid, dim3 block, const std::function<void()>& kernel, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  run_grid(grid, block, kernel, random);
}

template <class Kernel>
void expect_fault(dim3 block, Kernel kernel, const std::string& part) {
  EXPECT_THAT([&] { run(dim3(1), block, kernel); }, ThrowsMessage<KernelFault>(HasSubstr(part)));
}

TEST(HostGrid, RunsEveryThreadOfEveryBlockOnce) {
  std::array<int, 2 * 3 * 5 * 4> runs{};
  run(dim3(2, 3), dim3(5, 4), [&] {
    const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
    ++runs[block * 20 + threadIdx.y * blockDim.x + threadIdx.x];
  });
  EXPECT_THAT(runs, testing::Each(1));
}

TEST(HostGrid, DrawsTheOrderOfThreadsFromTheSeed) {
  const auto order = [](uint64_t seed) {
    std::vector<unsigned> threads;
    run(
        dim3(1), dim3(64), [&] { threads.push_back(threadIdx.x); }, seed);
    return threads;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(HostGrid, SharesMemoryBetweenThreadsThatABarrierOrders) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    int wrong = 0;
    run(
        dim3(3), dim3(64),
        [&] {
          Row& row = shared_memory<Row>();
          const int thread = static_cast<int>(threadIdx.x);
          row.values(thread) = thread;
          __syncthreads();
          if (row.values(63 - thread) != 63 - thread) ++wrong;
        },
        seed);
    EXPECT_EQ(wrong, 0);
  }
}

TEST(HostGrid, ShufflesBetweenTheThreadsOfAWarp) {
  int wrong = 0;
  run(dim3(1), dim3(64), [&] {
    const float got = __shfl_xor_sync(all_lanes, static_cast<float>(threadIdx.x), 5);
    if (got != static_cast<float>(threadIdx.x ^ 5)) ++wrong;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(HostGrid, ReportsABarrierThatSomeThreadsDoNotReach) {
  expect_fault(
      dim3(64),
      [] {
        if (threadIdx.x < 40) __syncthreads();
      },
      "thread 40 has returned");
}

TEST(HostGrid, ReportsThreadsAtDifferentBarriers) {
  expect_fault(
      dim3(64),
      [] {
        if (threadIdx.x < 32) {
          __syncthreads();
        } else {
          __syncthreads();
        }
      },
      "different barriers");
}

TEST(HostGrid, ReportsAWarpOperationThatNotAllInItsMaskReach) {
  const auto half = [] {
    if (threadIdx.x < 16) static_cast<void>(__shfl_xor_sync(all_lanes, 1, 1));
  };
  expect_fault(dim3(32), half, "waits for its warp");
  expect_fault(
      dim3(16), [] { static_cast<void>(__shfl_xor_sync(all_lanes, 1, 1)); }, "waits for its warp");
}

TEST(HostGrid, ReportsAWarpOperationOutsideItsMask) {
  expect_fault(
      dim3(32), [] { static_cast<void>(__shfl_xor_sync(0xffffU, 1, 1)); }, "outside its mask");
}

TEST(HostGrid, ReportsSharedMemoryReadBeforeABarrierAfterItsWrite) {
  expect_fault(
      dim3(64),
      [] {
        Row& row = shared_memory<Row>();
        const int thread = static_cast<int>(threadIdx.x);
        row.values(thread) = thread;
        __syncthreads();
        row.values(thread) = row.values((thread + 1) % 64);
      },
      "since the last barrier");
}

TEST(HostGrid, ReportsSharedMemoryThatTwoThreadsWrite) {
  expect_fault(
      dim3(2), [] { shared_memory<Row>().values(7) = 1; }, "written since the last barrier");
}

TEST(HostGrid, ReportsSharedMemoryThatNobodyHasWritten) {
  expect_fault(
      dim3(1), [] { static_cast<void>(int{shared_memory<Row>().values(3)}); }, "no thread has written");
}

TEST(HostGrid, ReportsAnIndexBesideSharedMemory) {
  expect_fault(
      dim3(1), [] { shared_memory<Row>().values(64) = 1; }, "index 64 of 64");
  expect_fault(
      dim3(1), [] { shared_memory<Row>().values(-1) = 1; }, "index -1 of 64");
}

/// A queue and ten floats of device memory.
class HostQueue : public testing::Test {
 protected:
  HostQueue() {
    EXPECT_EQ(api().open_queue(0, &queue_), 0);
    EXPECT_EQ(api().allocate(0, 10 * sizeof(float), &memory_), 0);
  }
  ~HostQueue() override {
    api().release(memory_);
    api().close_queue(queue_);
  }
  Queue* queue_ = nullptr;
  std::byte* memory_ = nullptr;
};

TEST_F(HostQueue, ReportsAWriteBesideDeviceMemory) {
  for (const int at : {-1, 10}) {
    auto* const values = reinterpret_cast<float*>(memory_);
    enqueue(queue_, [=](std::mt19937_64&) { values[at] = 0; });
    EXPECT_THROW(api().wait(queue_), KernelFault) << at;
    std::memset(values + at, 0xFF, sizeof(float));
  }
}

TEST_F(HostQueue, ReadsWhatItCopiesNoSoonerThanItIsWaitedFor) {
  float value = 1;
  float back = 0;
  EXPECT_EQ(api().copy(queue_, memory_, &value, sizeof(float)), 0);
  EXPECT_EQ(api().copy(queue_, &back, memory_, sizeof(float)), 0);
  value = 2;
  EXPECT_EQ(back, 0);
  EXPECT_EQ(api().wait(queue_), 0);
  EXPECT_EQ(back, 2);
}

}  // namespace
}  // namespace tutti::cuda::host
