#include "gpu/device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/result.hpp"

namespace tutti {
namespace {

TEST(Devices, AreOneForEachOwnerOnACpu) {
  std::string note;
  const std::vector<Device> devices = select_devices("cpu", 3, note);
  ASSERT_EQ(devices.size(), 3U);
  EXPECT_EQ(to_string(devices[2]), "cpu:2");
  EXPECT_EQ(note, "");
}

TEST(Devices, AutomaticallyFallBackToTheCpuAndSayWhy) {
  std::string note;
  const std::vector<Device> devices = select_devices("auto", 2, note);
  ASSERT_FALSE(devices.empty());
  if (devices.front().kind == Device::Kind::cpu) {
    EXPECT_EQ(devices.size(), 2U);
    EXPECT_NE(note, "");
  }
}

TEST(Devices, RefuseAnUnknownNameAndSayWhatIsAccepted) {
  for (const char* name : {"", "gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:0x", "cpu:1"}) {
    std::string note;
    EXPECT_THAT([&] { static_cast<void>(select_devices(name, 1, note)); },
                testing::ThrowsMessage<SetupError>(testing::HasSubstr("cuda:N")))
        << name;
  }
}

TEST(Devices, RefuseANamedGpuThatIsNotThere) {
  std::string note;
  EXPECT_THAT([&] { static_cast<void>(select_devices("cuda:99", 1, note)); },
              testing::ThrowsMessage<SetupError>(testing::HasSubstr("cuda:99")));
  EXPECT_THROW(static_cast<void>(open_device({Device::Kind::cuda, 99})), SetupError);
}

/// What finds so many GPUs.
CudaLoader finds(int gpus) {
  static constexpr cuda::PluginApi api{};
  return [gpus] { return Result<CudaPlugin>(CudaPlugin(api, gpus)); };
}

TEST(Devices, AreTheFirstGpuAutomaticallyWhereThereIsOne) {
  std::string note;
  const std::vector<Device> devices = select_devices("auto", 8, note, finds(2));
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(to_string(devices[0]), "cuda:0");
  EXPECT_EQ(note, "");
}

TEST(Devices, AreTheNamedGpu) {
  std::string note;
  const std::vector<Device> devices = select_devices("cuda:1", 8, note, finds(2));
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(to_string(devices[0]), "cuda:1");
  EXPECT_THAT(
      [&] { static_cast<void>(select_devices("cuda:2", 8, note, finds(2))); },
      testing::ThrowsMessage<SetupError>("device cuda:2 cannot be used: the NVIDIA driver has GPUs 0 to 1"));
}

TEST(Devices, GiveTheReasonThatNoGpuCanBeUsedInOneLine) {
  const CudaLoader load = []() -> Result<CudaPlugin> {
    return fail("cuda_unavailable", "no CUDA GPU: no NVIDIA driver is installed");
  };
  std::string note;
  const std::vector<Device> devices = select_devices("auto", 3, note, load);
  EXPECT_EQ(devices.size(), 3U);
  EXPECT_EQ(note, "running on the CPU: no CUDA GPU: no NVIDIA driver is installed");
  EXPECT_THAT([&] { static_cast<void>(select_devices("cuda:0", 3, note, load)); },
              testing::ThrowsMessage<SetupError>(
                  "device cuda:0 cannot be used: no CUDA GPU: no NVIDIA driver is installed"));
}

TEST(Devices, OpenAsOperationsThatNameTheirInstructionSet) {
  EXPECT_THAT(std::string(open_device({Device::Kind::cpu, 0})->description()), testing::StartsWith("cpu ("));
}

}  // namespace
}  // namespace tutti
