#include "gpu/cpu/level.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "config/result.hpp"
#include "gpu/cpu/targets.hpp"
// After targets.hpp, which says what is compiled:
#include "hwy/targets.h"

namespace tutti::cpu {
namespace {

struct Level {
  std::string_view name;
  int64_t target;
  bool vnni = false;
};

/// Lowest first.
constexpr std::array<Level, 5> table{{
    {"portable", HWY_SCALAR | HWY_EMU128},
    {"neon", HWY_NEON},
    {"avx2", HWY_AVX2},
    {"avx512", HWY_AVX3},
    {"avx512_vnni", HWY_AVX3, true},
}};

bool cpu_has_vnni() {
#if HWY_ARCH_X86
  return __builtin_cpu_supports("avx512vnni") != 0;
#else
  return false;
#endif
}

/// Compiled, and what the CPU has; asked for the first time before anything is disabled.
bool machine_has(const Level& level) {
  static const int64_t targets = HWY_SUPPORTED_TARGETS & int64_t{HWY_TARGETS};
  return (level.target & targets) != 0 && (!level.vnni || cpu_has_vnni());
}

const Level& highest() {
  static const Level& found = *std::find_if(table.rbegin(), table.rend(), machine_has);
  return found;
}

/// None: the highest.
std::atomic<const Level*> lowered_to{nullptr};

const Level& in_use() {
  const Level* const level = lowered_to;
  return level == nullptr ? highest() : *level;
}

}  // namespace

std::vector<std::string_view> levels() {
  std::vector<std::string_view> names;
  for (const Level& each : table) {
    if (machine_has(each)) names.push_back(each.name);
  }
  return names;
}

void use_level(std::string_view name) {
  if (name == "auto") name = highest().name;
  const auto* const found = std::ranges::find(table, name, &Level::name);
  if (found == table.end() || !machine_has(*found)) {
    throw SetupError(
        fmt::format("cpu_level {} cannot be used: this build on this CPU has {}; auto takes the last of them",
                    name, fmt::join(levels(), ", ")));
  }
  int64_t higher = 0;
  for (const Level& each : table) {
    if (&each > found && each.target != found->target) higher |= each.target;
  }
  hwy::DisableTargets(higher);
  lowered_to = found == &highest() ? nullptr : found;
}

std::string_view level() { return in_use().name; }

bool level_is_lowered() { return lowered_to != nullptr; }

bool vnni_is_in_use() { return in_use().vnni; }

}  // namespace tutti::cpu
