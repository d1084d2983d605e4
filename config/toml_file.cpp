#include "config/toml_file.hpp"

#include <fmt/format.h>

#include "config/result.hpp"

namespace tutti {

toml::table parse_toml_file(const std::string& path) {
  try {
    return toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    throw SetupError(fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
  }
}

}  // namespace tutti
