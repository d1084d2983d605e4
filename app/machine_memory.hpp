#pragma once

#include <cstdint>
#include <optional>

#include "app/cgroup.hpp"

namespace tutti {

/// Bytes that programs on this machine could still take, cut to what the cgroups of this one leave it.
[[nodiscard]] int64_t available_memory();

/// The least that `cgroup` and its parents leave, with files counted as free that they cache and could drop;
/// nullopt when none has a limit. Reads cgroup v2 (memory.max) and v1 (memory.limit_in_bytes).
[[nodiscard]] std::optional<int64_t> cgroup_memory_left(const Cgroup& cgroup);

/// Bytes of memory this process holds, and bytes it was given, whether it has touched them yet or not. Give
/// back to the system what the allocator keeps for later.
[[nodiscard]] int64_t resident_memory();
[[nodiscard]] int64_t allocated_memory();

}  // namespace tutti
