#include "app/machine_memory.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

#include "tests/config/temp_directory.hpp"

namespace tutti {
namespace {
namespace fs = std::filesystem;

using testing::ElementsAre;

TEST(Cgroups, OfVersionTwoHaveEveryController) {
  std::istringstream lines("0::/pod/container\n");
  EXPECT_THAT(parse_cgroups(lines, "memory"),
              ElementsAre(Cgroup{"/sys/fs/cgroup/pod/container", "/sys/fs/cgroup"}));
}

TEST(Cgroups, OfVersionOneAreThoseThatListTheController) {
  std::istringstream lines("9:name=systemd:/\n4:memory:/pod\n2:cpu,cpuacct:/\n1:cpuset:/\n0::/\n");
  EXPECT_THAT(parse_cgroups(lines, "memory"),
              ElementsAre(Cgroup{"/sys/fs/cgroup/memory/pod", "/sys/fs/cgroup/memory"},
                          Cgroup{"/sys/fs/cgroup", "/sys/fs/cgroup"}));
  lines.clear();
  lines.seekg(0);
  EXPECT_THAT(parse_cgroups(lines, "cpu"),
              ElementsAre(Cgroup{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct"},
                          Cgroup{"/sys/fs/cgroup", "/sys/fs/cgroup"}));
}

TEST(Cgroups, IgnoreLinesOfAnotherForm) {
  std::istringstream lines("\nnothing\n4:memory\n");
  EXPECT_TRUE(parse_cgroups(lines, "memory").empty());
}

class CgroupMemory : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(group_.directory); }
  static void write(const fs::path& file, const std::string& text) { std::ofstream(file) << text << '\n'; }

  test::TempDirectory folder_;
  Cgroup group_{folder_.path() / "pod" / "container", folder_.path()};
};

TEST_F(CgroupMemory, HasNoLimitWhereNoneIsSet) {
  write(group_.directory / "memory.max", "max");
  write(group_.directory / "memory.current", "1000");
  EXPECT_EQ(cgroup_memory_left(group_), std::nullopt);
}

TEST_F(CgroupMemory, LeavesItsLimitWithoutWhatIsUsedAndNotACachedFile) {
  write(group_.directory / "memory.max", "10000");
  write(group_.directory / "memory.current", "3000");
  EXPECT_EQ(cgroup_memory_left(group_), 7000);
  write(group_.directory / "memory.stat", "anon 1000\ninactive_file 500\nactive_file 200");
  EXPECT_EQ(cgroup_memory_left(group_), 7500);
}

TEST_F(CgroupMemory, LeavesTheLeastOfTheGroupAndItsParents) {
  write(group_.directory / "memory.max", "10000");
  write(group_.directory / "memory.current", "1000");
  write(group_.root / "pod" / "memory.max", "12000");
  write(group_.root / "pod" / "memory.current", "8000");
  EXPECT_EQ(cgroup_memory_left(group_), 4000);
}

TEST_F(CgroupMemory, ReadsTheFirstVersionOfCgroups) {
  write(group_.root / "memory.limit_in_bytes", "5000");
  write(group_.root / "memory.usage_in_bytes", "2000");
  write(group_.root / "memory.stat", "inactive_file 7\ntotal_inactive_file 100");
  EXPECT_EQ(cgroup_memory_left(group_), 3100);
}

TEST_F(CgroupMemory, LeavesNothingWhenMoreIsUsedThanAllowed) {
  write(group_.directory / "memory.max", "1000");
  write(group_.directory / "memory.current", "3000");
  EXPECT_EQ(cgroup_memory_left(group_), 0);
}

TEST(MachineMemory, CountsWhatThisProcessTakes) {
  const int64_t before = resident_memory();
  EXPECT_GT(before, 0);
  EXPECT_GT(available_memory(), 0);
  const std::vector<char> bytes(64 << 20, 1);
  EXPECT_GE(resident_memory(), before + (60 << 20));
}

TEST(MachineMemory, TellsWhatIsAllocatedFromWhatIsTouched) {
  const int64_t allocated = allocated_memory();
  const int64_t resident = resident_memory();
  const std::unique_ptr<char, decltype(&std::free)> bytes(static_cast<char*>(std::malloc(64 << 20)),
                                                          &std::free);
  EXPECT_NE(bytes, nullptr);
  EXPECT_GE(allocated_memory(), allocated + (64 << 20));
  EXPECT_LT(resident_memory(), resident + (32 << 20));
}

}  // namespace
}  // namespace tutti
