#include "app/file_stamp.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <system_error>
#include <vector>

namespace tutti {
namespace fs = std::filesystem;

std::string stamp_files(const fs::path& directory) {
  std::error_code error;
  std::vector<std::string> lines;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    struct stat file {};
    if (::stat(entry->path().c_str(), &file) != 0 || !S_ISREG(file.st_mode)) continue;
    lines.push_back(fmt::format("{} {} {}.{:09} {}\n", entry->path().filename().string(), file.st_size,
                                file.st_mtim.tv_sec, file.st_mtim.tv_nsec, file.st_ino));
  }
  std::ranges::sort(lines);
  return fmt::format("{}", fmt::join(lines, ""));
}

}  // namespace tutti
