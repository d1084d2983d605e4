#include "gpu/cuda/staging.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/gpu/cuda_host/api.hpp"

namespace tutti::cuda {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// `count` values in memory of the device, which the host form lets the test read.
class DeviceInts {
 public:
  explicit DeviceInts(size_t count) : count_(count) {
    EXPECT_EQ(host::api().allocate(0, count * sizeof(int32_t), &memory_), 0);
  }
  ~DeviceInts() { host::api().release(memory_); }
  DeviceInts(const DeviceInts&) = delete;
  DeviceInts& operator=(const DeviceInts&) = delete;
  [[nodiscard]] std::span<int32_t> values() const { return {reinterpret_cast<int32_t*>(memory_), count_}; }

 private:
  size_t count_;
  std::byte* memory_ = nullptr;
};

TEST(Staging, KeepsWhatKernelsReadUntilTheyHaveRun) {
  constexpr size_t length = 75;
  Staging staging(host::api(), 0, 1024);  // of which three fit
  const DeviceInts received(length);
  const DeviceInts sums(50);
  for (int32_t i = 0; i < 50; ++i) {
    const std::vector<int32_t> array(length, i);
    const auto [there] = staging.stage(std::span<const int32_t>(array));
    staging.copy(&sums.values()[static_cast<size_t>(i)], there + length - 1, sizeof(int32_t));
    staging.copy(received.values().data(), there, length * sizeof(int32_t));
  }
  staging.wait();
  for (int32_t i = 0; i < 50; ++i) EXPECT_EQ(sums.values()[static_cast<size_t>(i)], i);
  EXPECT_THAT(received.values(), Each(49));
}

TEST(Staging, TakesArraysThatAreLargerThanItsMemory) {
  Staging staging(host::api(), 0, 64);
  const std::vector<int32_t> small(3, 1);
  const std::vector<int32_t> large(1000, 2);
  const auto [first, second] =
      staging.stage(std::span<const int32_t>(small), std::span<const int32_t>(large));
  staging.wait();
  EXPECT_THAT(std::span(first, small.size()), Each(1));
  EXPECT_THAT(std::span(second, large.size()), Each(2));
}

TEST(Staging, SaysWhatTheGpuCannotDo) {
  PluginApi failing = host::api();
  failing.copy = [](Queue*, void*, const void*, size_t) { return 7; };
  failing.error_text = [](int error) { return error == 7 ? "it fell off the bus" : "?"; };
  Staging staging(failing, 0, 64);
  EXPECT_THAT([&] { staging.copy(nullptr, nullptr, 1); },
              ThrowsMessage<DeviceError>(HasSubstr("cannot copy: it fell off the bus")));
}

}  // namespace
}  // namespace tutti::cuda
