#pragma once

#include <filesystem>
#include <istream>
#include <string_view>
#include <vector>

namespace tutti {

/// A control group that limits this process, and the root of its hierarchy. Its parents up to the root limit
/// it too.
struct Cgroup {
  std::filesystem::path directory;
  std::filesystem::path root;
  bool operator==(const Cgroup&) const = default;

  /// The directory, its parent, and so on to the root.
  [[nodiscard]] std::vector<std::filesystem::path> with_parents() const;
};

/// Those that `lines` in the form of /proc/self/cgroup name for `controller` ("cpu", "memory"): one of
/// version 2, which has all controllers, one of version 1, or both.
[[nodiscard]] std::vector<Cgroup> parse_cgroups(std::istream& lines, std::string_view controller);
/// Of this process.
[[nodiscard]] std::vector<Cgroup> own_cgroups(std::string_view controller);

}  // namespace tutti
