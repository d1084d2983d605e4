#include "config/toml_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "config/result.hpp"

namespace tutti {

toml::table parse_toml_file(const std::string& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  // A directory opens, and reads as an empty file.
  if (!file || std::filesystem::is_directory(path)) {
    throw SetupError(
        fmt::format("cannot read {}: {}", path, file ? "it is a directory" : std::strerror(errno)));
  }
  text << file.rdbuf();
  try {
    return toml::parse(text.str());
  } catch (const toml::parse_error& error) {
    throw SetupError(fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
  }
}

}  // namespace tutti
