#include "app/usable_cores.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

namespace tutti {
namespace fs = std::filesystem;

namespace {

std::vector<int> affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

/// "200000 100000" is two cores, "max 100000" no limit.
std::optional<double> quota_v2(const fs::path& directory) {
  std::ifstream in(directory / "cpu.max");
  std::string quota;
  double period = 0;
  if (!(in >> quota >> period) || quota == "max" || period <= 0) return std::nullopt;
  return std::strtod(quota.c_str(), nullptr) / period;
}

/// A quota of -1 is no limit.
std::optional<double> quota_v1(const fs::path& directory) {
  std::ifstream quota_file(directory / "cpu.cfs_quota_us");
  std::ifstream period_file(directory / "cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (!(quota_file >> quota) || !(period_file >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

std::optional<double> smaller(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

std::optional<double> own_quota() {
  std::optional<double> quota;
  for (const Cgroup& cgroup : own_cgroups("cpu")) quota = smaller(quota, cgroup_cpu_quota(cgroup));
  return quota;
}

}  // namespace

std::optional<double> cgroup_cpu_quota(const Cgroup& cgroup) {
  std::optional<double> quota;
  for (const fs::path& group : cgroup.with_parents()) {
    quota = smaller(quota, smaller(quota_v2(group), quota_v1(group)));
  }
  return quota;
}

std::vector<int> usable_cores() {
  std::vector<int> cores = affinity();
  if (const auto quota = own_quota()) {
    const auto whole = static_cast<size_t>(std::max(1.0, std::floor(*quota)));
    if (whole < cores.size()) cores.resize(whole);
  }
  return cores;
}

ThreadPlan plan_threads(int cores, int owners) {
  constexpr int few_cores = 4;
  constexpr int many_cores = 8;
  if (owners == 0) owners = cores >= many_cores ? cores - 1 : cores;
  return {.owners = owners,
          .pin_owners = owners > few_cores && owners <= cores,
          .io_threads = cores <= few_cores ? 1 : std::max(1, owners / 8),
          .workers = cores <= few_cores ? 1 : std::max(2, owners / 8)};
}

}  // namespace tutti
