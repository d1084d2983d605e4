#include "config/config_changes.hpp"

#include "config/options.hpp"

namespace tutti {
namespace {

bool has_tls(const ServerConfig& config) { return !config.tls_certificate.empty(); }

bool is_tls(const ConfigOption& option) {
  return option.name == "server.tls_certificate" || option.name == "server.tls_key";
}

}  // namespace

ConfigChanges compare_configs(const ServerConfig& running, const ServerConfig& wanted) {
  const bool keeps_tls = has_tls(running) != has_tls(wanted);
  ConfigChanges changes{.config = wanted, .at_once = {}, .with_model = {}, .at_restart = {}};
  for (const ConfigOption& option : config_options()) {
    if (option.to_toml(running) == option.to_toml(wanted)) continue;
    if (option.applies == Applies::at_start || (keeps_tls && is_tls(option))) {
      option.copy(running, changes.config);
      changes.at_restart.push_back(option.name);
    } else {
      (option.applies == Applies::at_once ? changes.at_once : changes.with_model).push_back(option.name);
    }
  }
  return changes;
}

std::string join_names(const std::vector<std::string_view>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace tutti
