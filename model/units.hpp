#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tutti {

/// Reads units.txt: one "token id" a line, ids 0 to n-1 each once, in any order; a token is any UTF-8 without
/// line breaks. Returns the spelling by id. Throws SetupError naming the line.
[[nodiscard]] std::vector<std::string> load_units(const std::filesystem::path& file);

}  // namespace tutti
