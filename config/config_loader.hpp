#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "config/server_config.hpp"

namespace tutti {

/// Where a configuration comes from, weakest last: flags, environment, file, the defaults of ServerConfig.
struct ConfigSources {
  /// Option names ("engine.max_streams", not the flag) and values, as typed.
  std::vector<std::pair<std::string, std::string>> flags;
  /// Looks up an environment variable; nullptr when it is not set. A variable that is no option's is never
  /// looked at, because orchestrators set variables of their own with the same prefix. Empty reads none.
  std::function<const char*(const char*)> environment;
  /// Path of a TOML file; empty reads none.
  std::string file;
};

/// Reads and validates all sources. Throws SetupError naming the option, its value, where it came from and
/// what is accepted: `engine.max_streams = 0 (from tutti.toml:12): expected a whole number from 1 to 100000`.
[[nodiscard]] ServerConfig load_config(const ConfigSources& sources);

}  // namespace tutti
