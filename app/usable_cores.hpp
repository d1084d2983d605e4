#pragma once

#include <optional>
#include <vector>

#include "app/cgroup.hpp"

namespace tutti {

/// The cores this process may run on: its affinity mask, cut to its cgroup's CPU quota (at least one). A
/// quota of 2.5 cores is 2: an owner on half a core would make every stream on it late.
[[nodiscard]] std::vector<int> usable_cores();

/// The smallest CPU quota, in cores, of `cgroup` and its parents; nullopt when there is none. Reads cgroup v2
/// (cpu.max) and v1 (cpu.cfs_quota_us).
[[nodiscard]] std::optional<double> cgroup_cpu_quota(const Cgroup& cgroup);

/// How the threads of a server share `cores`.
struct ThreadPlan {
  int owners;       ///< CPU owners
  bool pin_owners;  ///< only when there are many: a pinned owner cannot make way
  int io_threads;
  int workers;  ///< for all other actors
};

/// `owners` as configured, 0 for as many as there are cores; from 8 cores on one is left to sockets and
/// actors.
[[nodiscard]] ThreadPlan plan_threads(int cores, int owners);

}  // namespace tutti
