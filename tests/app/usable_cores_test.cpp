#include "app/usable_cores.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/config/temp_directory.hpp"

namespace tutti {
namespace {
namespace fs = std::filesystem;

class CgroupQuota : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root / "pod" / "container"); }
  static void write(const fs::path& file, const std::string& text) { std::ofstream(file) << text << '\n'; }

  test::TempDirectory folder;
  const fs::path root = folder.path();
};

TEST_F(CgroupQuota, IsNoneWithoutALimit) {
  write(root / "pod" / "cpu.max", "max 100000");
  EXPECT_EQ(cgroup_cpu_quota({root / "pod" / "container", root}), std::nullopt);
}

TEST_F(CgroupQuota, IsTheSmallestOfTheGroupAndItsParents) {
  write(root / "cpu.max", "800000 100000");
  write(root / "pod" / "cpu.max", "250000 100000");
  write(root / "pod" / "container" / "cpu.max", "max 100000");
  EXPECT_EQ(cgroup_cpu_quota({root / "pod" / "container", root}), 2.5);
}

TEST_F(CgroupQuota, ReadsTheFirstVersionOfCgroups) {
  write(root / "pod" / "cpu.cfs_quota_us", "300000");
  write(root / "pod" / "cpu.cfs_period_us", "100000");
  write(root / "pod" / "container" / "cpu.cfs_quota_us", "-1");
  write(root / "pod" / "container" / "cpu.cfs_period_us", "100000");
  EXPECT_EQ(cgroup_cpu_quota({root / "pod" / "container", root}), 3.0);
}

TEST_F(CgroupQuota, IgnoresWhatItCannotRead) {
  write(root / "cpu.max", "many few");
  EXPECT_EQ(cgroup_cpu_quota({root / "elsewhere", root}), std::nullopt);
}

TEST(UsableCores, AreAtLeastOne) { EXPECT_GE(usable_cores().size(), 1U); }

TEST(ThreadPlan, GivesEveryCoreOfASmallMachineAnOwner) {
  const ThreadPlan plan = plan_threads(2, 0);
  EXPECT_EQ(plan.owners, 2);
  EXPECT_FALSE(plan.pin_owners);
  EXPECT_EQ(plan.io_threads, 1);
  EXPECT_EQ(plan.workers, 1);
}

TEST(ThreadPlan, LeavesACoreOfALargeMachineToTheSockets) {
  const ThreadPlan plan = plan_threads(32, 0);
  EXPECT_EQ(plan.owners, 31);
  EXPECT_TRUE(plan.pin_owners);
  EXPECT_EQ(plan.io_threads, 3);
}

TEST(ThreadPlan, DoesNotPinMoreOwnersThanThereAreCores) {
  EXPECT_EQ(plan_threads(2, 6).owners, 6);
  EXPECT_FALSE(plan_threads(2, 6).pin_owners);
}

}  // namespace
}  // namespace tutti
