#include "app/machine_memory.hpp"

#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

namespace tutti {
namespace fs = std::filesystem;

namespace {

constexpr int64_t kibibyte = 1024;

std::optional<int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  int64_t number = 0;
  if (!(in >> number)) return std::nullopt;
  return number;
}

/// The number behind `name` in a file of names and numbers.
std::optional<int64_t> entry_of(const fs::path& file, std::string_view name) {
  std::ifstream in(file);
  std::string word;
  while (in >> word) {
    int64_t number = 0;
    if (word == name && in >> number) return number;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

/// limit - (usage - cached files), of a version's files.
std::optional<int64_t> left(const fs::path& limit, const fs::path& usage, const fs::path& stat,
                            std::string_view cached_files) {
  const auto limited_to = number_in(limit);
  const auto used = number_in(usage);
  if (!limited_to || !used) return std::nullopt;
  return std::max<int64_t>(0, *limited_to - *used + entry_of(stat, cached_files).value_or(0));
}

int64_t own_memory(std::string_view entry) {
  ::malloc_trim(0);
  return entry_of("/proc/self/status", entry).value_or(0) * kibibyte;
}

}  // namespace

std::optional<int64_t> cgroup_memory_left(const Cgroup& cgroup) {
  std::optional<int64_t> least;
  for (const fs::path& group : cgroup.with_parents()) {
    const fs::path stat = group / "memory.stat";
    for (const auto& bytes : {left(group / "memory.max", group / "memory.current", stat, "inactive_file"),
                              left(group / "memory.limit_in_bytes", group / "memory.usage_in_bytes", stat,
                                   "total_inactive_file")}) {
      if (bytes) least = std::min(*bytes, least.value_or(*bytes));
    }
  }
  return least;
}

int64_t available_memory() {
  int64_t available = entry_of("/proc/meminfo", "MemAvailable:").value_or(0) * kibibyte;
  for (const Cgroup& cgroup : own_cgroups("memory")) {
    available = std::min(available, cgroup_memory_left(cgroup).value_or(available));
  }
  return available;
}

int64_t resident_memory() { return own_memory("VmRSS:"); }

int64_t allocated_memory() { return own_memory("VmData:"); }

}  // namespace tutti
