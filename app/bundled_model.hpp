#pragma once

#include <filesystem>
#include <string>

namespace tutti {

/// `given`, or, when that is empty, the English model that comes with Tutti:
/// ../share/tutti/models/tutti-en-mini beside an installed program, models/tutti-en-mini of the source tree
/// above a built one. Throws SetupError that names the places looked at when there is none.
[[nodiscard]] std::filesystem::path model_directory(const std::string& given);

}  // namespace tutti
