#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace tutti::test {

using ZipEntries = std::vector<std::pair<std::string, std::string>>;

/// Writes an archive with these entries, stored unless `compressed`.
void write_zip(const std::filesystem::path& file, const ZipEntries& entries, bool compressed = false);

}  // namespace tutti::test
