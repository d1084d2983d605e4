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
  for (const char* name :
       {"", "gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:0x", "cpu:1", "cuda:0,", "cuda:0,cpu"}) {
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

std::vector<std::string> selected(const char* device, int gpus) {
  std::string note;
  std::vector<std::string> names;
  for (const Device& each : select_devices(device, 8, note, finds(gpus))) names.push_back(to_string(each));
  EXPECT_EQ(note, "");
  return names;
}

TEST(Devices, AreAllGpusAutomaticallyOrWhenAskedFor) {
  using testing::ElementsAre;
  EXPECT_THAT(selected("auto", 1), ElementsAre("cuda:0"));
  EXPECT_THAT(selected("auto", 3), ElementsAre("cuda:0", "cuda:1", "cuda:2"));
  EXPECT_THAT(selected("cuda:all", 2), ElementsAre("cuda:0", "cuda:1"));
}

TEST(Devices, AreTheNamedGpusInTheirOrder) {
  EXPECT_THAT(selected("cuda:2,cuda:0", 3), testing::ElementsAre("cuda:2", "cuda:0"));
  EXPECT_THAT(
      [] { (void)selected("cuda:0,cuda:3", 2); },
      testing::ThrowsMessage<SetupError>("device cuda:3 cannot be used: the NVIDIA driver has GPUs 0 to 1"));
  EXPECT_THAT(
      [] { (void)selected("cuda:1", 1); },
      testing::ThrowsMessage<SetupError>("device cuda:1 cannot be used: the NVIDIA driver has one GPU, 0"));
  EXPECT_THAT([] { (void)selected("cuda:1,cuda:0,cuda:1", 2); },
              testing::ThrowsMessage<SetupError>("device cuda:1 is named twice: a GPU has one owner"));
}

TEST(Devices, SayWhatAGpuIsAndHowMuchOfItsMemoryIsFree) {
  static const cuda::PluginApi api = [] {
    cuda::PluginApi made{};
    made.memory = [](int, size_t* free, size_t* total) {
      *free = 3;
      *total = 10;
      return 0;
    };
    made.describe = [](int, cuda::GpuInfo* info) {
      *info = {.name = "H200",
               .compute_major = 9,
               .compute_minor = 0,
               .driver_version = 13010,
               .runtime_version = 12080};
      return 0;
    };
    return made;
  }();
  const CudaLoader load = [] { return Result<CudaPlugin>(CudaPlugin(api, 1)); };
  const Device gpu{Device::Kind::cuda, 0};
  const GpuDescription description = describe_gpu(gpu, load);
  EXPECT_EQ(description.name, "H200");
  EXPECT_EQ(description.compute, "9.0");
  EXPECT_EQ(description.driver, "13.1");
  EXPECT_EQ(description.runtime, "12.8");
  EXPECT_EQ(device_memory(gpu, load).free, 3);
  EXPECT_EQ(device_memory(gpu, load).total, 10);
  EXPECT_THROW((void)device_memory({Device::Kind::cuda, 1}, load), SetupError);
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
  EXPECT_THAT([&] { static_cast<void>(select_devices("cuda:all", 3, note, load)); },
              testing::ThrowsMessage<SetupError>(
                  "device cuda:all cannot be used: no CUDA GPU: no NVIDIA driver is installed"));
  EXPECT_THAT([&] { static_cast<void>(select_devices("cuda:0", 3, note, load)); },
              testing::ThrowsMessage<SetupError>(
                  "device cuda:0 cannot be used: no CUDA GPU: no NVIDIA driver is installed"));
}

TEST(Devices, RefuseWeightsThatTheyDoNotMultiplyAndSayWhichTheyDo) {
  for (const WeightType weights : {WeightType::fp16, WeightType::fp8}) {
    EXPECT_THAT(
        [weights] {
          static_cast<void>(open_device({Device::Kind::cpu, 0}, weights));
        },
        testing::ThrowsMessage<SetupError>(
            testing::AllOf(testing::HasSubstr(std::string(weight_type_name(weights))),
                           testing::HasSubstr("fp32, bf16 and int8 are accepted"))));
  }
  const CudaLoader of_compute_capability_8_0 = []() -> Result<CudaPlugin> {
    static const cuda::PluginApi api = [] {
      cuda::PluginApi made{};
      made.kernels.can_multiply = [](int /*device*/, cuda::MatrixType /*type*/, int* can) {
        return *can = 0;
      };
      return made;
    }();
    return CudaPlugin(api, 1);
  };
  EXPECT_THAT(
      [&] {
        static_cast<void>(open_device({Device::Kind::cuda, 0}, WeightType::fp8, of_compute_capability_8_0));
      },
      testing::ThrowsMessage<SetupError>("weights fp8 are not for cuda:0, which is older than compute "
                                         "capability 8.9: fp32, bf16, fp16 and int8 are accepted"));
}

TEST(Devices, OpenAsOperationsThatNameTheirInstructionSet) {
  EXPECT_THAT(std::string(open_device({Device::Kind::cpu, 0})->description()), testing::StartsWith("cpu ("));
}

}  // namespace
}  // namespace tutti
