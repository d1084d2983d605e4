#pragma once

#include <filesystem>
#include <string>

namespace tutti {

/// Says, without reading them, whether the files of a directory are those that they were: name, size, time of
/// the last change, and inode of each. What is below it in other directories does not count. Empty when the
/// directory cannot be read.
[[nodiscard]] std::string stamp_files(const std::filesystem::path& directory);

}  // namespace tutti
