#include "gpu/cpu/level.hpp"

#include <gmock/gmock.h>

#include "config/result.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "tests/gpu/every_target.hpp"

namespace tutti {
namespace {

using testing::HasSubstr;

std::string description() { return std::string(make_cpu_ops()->description()); }

TEST(Level, IsTheHighestOfThisMachineUnlessALowerOneIsAskedFor) {
  EXPECT_EQ(cpu::level(), cpu::levels().back());
  EXPECT_FALSE(cpu::level_is_lowered());
  for (const std::string_view level : cpu::levels()) {
    const HeldLevel held(level);
    EXPECT_EQ(cpu::level(), level);
    EXPECT_EQ(cpu::level_is_lowered(), level != cpu::levels().back());
    EXPECT_THAT(description(), HasSubstr("(" + std::string(level) + ","));
  }
  EXPECT_EQ(cpu::level(), cpu::levels().back());
}

TEST(Level, IsKeptByKernelsThatTakeWhatIsPackedForIt) {
  // The width of the panels differs from level to level: a kernel of another one would read past them.
  const Tensor weight = host_tensor({3, 1}, std::vector<float>{1, 2, 3});
  const Tensor x = host_tensor({1, 1}, std::vector<float>{2});
  on_every_target([&] {
    const auto ops = make_cpu_ops(cpu::GemmChoice::panel);
    const Tensor y = ops->allocate(DType::f32, {1, 3});
    ops->linear(*ops->pack_linear(weight, {}), x, {}, y);
    EXPECT_EQ(std::vector<float>(y.view().f32(), y.view().f32() + 3), (std::vector<float>{2, 4, 6}));
  });
}

TEST(Level, BelowTheHighestLeavesOneDnnOut) {
  for (const std::string_view level : cpu::levels()) {
    if (level == cpu::levels().back()) continue;
    const HeldLevel held(level);
    EXPECT_THAT(description(), HasSubstr(", panel kernel)"));
  }
}

TEST(Level, ThatThisMachineDoesNotHaveIsRefusedWithThoseItHas) {
  for (const char* name : {"neon", "avx512", "AVX2", ""}) {
    const std::vector<std::string_view> had = cpu::levels();
    if (std::ranges::find(had, name) != had.end()) continue;
    EXPECT_THAT([&] { cpu::use_level(name); },
                testing::ThrowsMessage<SetupError>(
                    testing::AllOf(HasSubstr("cpu_level " + std::string(name) + " cannot be used"),
                                   HasSubstr(std::string(had.front())), HasSubstr(std::string(had.back())))));
    EXPECT_EQ(cpu::level(), had.back()) << "changed by what was refused";
  }
}

}  // namespace
}  // namespace tutti
