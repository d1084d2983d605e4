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

TEST(Devices, OpenAsOperationsThatNameTheirInstructionSet) {
  EXPECT_THAT(std::string(open_device({Device::Kind::cpu, 0})->description()), testing::StartsWith("cpu ("));
}

}  // namespace
}  // namespace tutti
