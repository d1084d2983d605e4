#include "app/usable_cores.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
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

/// The quota of this process: a line of /proc/self/cgroup is "ID:CONTROLLERS:PATH", with an empty list for
/// v2.
std::optional<double> own_quota() {
  std::ifstream in("/proc/self/cgroup");
  std::optional<double> quota;
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    fs::path root = "/sys/fs/cgroup";
    if (!controllers.empty()) {
      if (controllers != "cpu" && controllers != "cpu,cpuacct") continue;
      root /= controllers;
    }
    quota = smaller(quota, cgroup_cpu_quota(root / fs::path(path).relative_path(), root));
  }
  return quota;
}

}  // namespace

std::optional<double> cgroup_cpu_quota(fs::path directory, const fs::path& root) {
  std::optional<double> quota;
  while (true) {
    quota = smaller(quota, smaller(quota_v2(directory), quota_v1(directory)));
    if (directory == root || !directory.has_relative_path()) return quota;
    directory = directory.parent_path();
  }
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
