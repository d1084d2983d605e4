#include "app/cgroup.hpp"

#include <fstream>
#include <string>

namespace tutti {
namespace fs = std::filesystem;

std::vector<fs::path> Cgroup::with_parents() const {
  std::vector<fs::path> all{directory};
  while (all.back() != root && all.back().has_relative_path()) all.push_back(all.back().parent_path());
  return all;
}

std::vector<Cgroup> parse_cgroups(std::istream& lines, std::string_view controller) {
  const fs::path mounts = "/sys/fs/cgroup";
  std::vector<Cgroup> found;
  // A line is "ID:CONTROLLERS:PATH", with an empty list for version 2.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool listed =
        (',' + controllers + ',').find(',' + std::string(controller) + ',') != std::string::npos;
    if (!controllers.empty() && !listed) continue;
    const fs::path root = controllers.empty() ? mounts : mounts / controllers;
    const fs::path relative = fs::path(line.substr(second + 1)).relative_path();
    found.push_back({.directory = relative.empty() ? root : root / relative, .root = root});
  }
  return found;
}

std::vector<Cgroup> own_cgroups(std::string_view controller) {
  std::ifstream lines("/proc/self/cgroup");
  return parse_cgroups(lines, controller);
}

}  // namespace tutti
