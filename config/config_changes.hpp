#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/server_config.hpp"

namespace tutti {

/// What a configuration comes to for a server that runs with another one.
struct ConfigChanges {
  ServerConfig config;                       ///< to run with: the new one, but for what needs a restart
  std::vector<std::string_view> at_once;     ///< options that change, by their names
  std::vector<std::string_view> with_model;  ///< those that come with the model, which is then loaded again
  std::vector<std::string_view> at_restart;  ///< those that keep their values until then

  [[nodiscard]] bool loads_model() const { return !with_model.empty(); }
};

/// TLS can be given another certificate, but is neither taken up nor given up by a server that runs.
[[nodiscard]] ConfigChanges compare_configs(const ServerConfig& running, const ServerConfig& wanted);

/// "server.max_sessions and server.log_level"; empty without any.
[[nodiscard]] std::string join_names(const std::vector<std::string_view>& names);

}  // namespace tutti
