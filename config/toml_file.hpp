#pragma once

#include <toml++/toml.h>
#include <string>

namespace tutti {

/// Throws SetupError with file and line for what cannot be read.
[[nodiscard]] toml::table parse_toml_file(const std::string& path);

}  // namespace tutti
