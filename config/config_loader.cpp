#include "config/config_loader.hpp"

#include <fmt/format.h>

#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "config/options.hpp"
#include "config/result.hpp"
#include "config/toml_file.hpp"

namespace tutti {
namespace {

[[noreturn]] void refuse(std::string_view name, std::string_view value, std::string_view source,
                         std::string_view expected) {
  throw SetupError(fmt::format("{} = {} (from {}): expected {}", name, value, source, expected));
}

std::string_view describe(toml::node_type type) {
  switch (type) {
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a decimal number";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

std::string print(const toml::node& node) {
  std::ostringstream text;
  text << toml::node_view<const toml::node>(node);
  return text.str();
}

/// Builds a configuration from the weakest source to the strongest and remembers who set what.
class Loader {
 public:
  void read_file(const std::string& path) { read_table(path, "", parse_toml_file(path)); }

  void read_environment(const std::function<const char*(const char*)>& environment) {
    for (const ConfigOption& option : config_options()) {
      const std::string variable = option.environment();
      if (const char* text = environment(variable.c_str())) set_spelled(option, text, variable);
    }
  }

  void set_flag(const std::string& name, const std::string& text) {
    const ConfigOption* option = find_option(name);
    if (option == nullptr) throw SetupError(fmt::format("{}: no such option", name));
    set_spelled(*option, text, option->flag());
  }

  ServerConfig finish() {
    // The engine must have room for everything a session is allowed to send ahead.
    if (config_.credit_ms > config_.engine.max_buffered_ms) {
      refuse("server.credit_ms", std::to_string(config_.credit_ms), source("server.credit_ms"),
             fmt::format("at most engine.max_buffered_ms = {} (from {})", config_.engine.max_buffered_ms,
                         source("engine.max_buffered_ms")));
    }
    require_both("server.tls_certificate", config_.tls_certificate, "server.tls_key", config_.tls_key);
    require_both("server.tls_key", config_.tls_key, "server.tls_certificate", config_.tls_certificate);
    return config_;
  }

 private:
  void require_both(std::string_view name, const std::string& value, std::string_view other,
                    const std::string& other_value) const {
    if (!value.empty() && other_value.empty()) {
      refuse(name, value, source(name), fmt::format("{} beside it: TLS needs both", other));
    }
  }

  void read_table(const std::string& path, const std::string& prefix, const toml::table& table) {
    for (const auto& [key, node] : table) {
      const std::string name = prefix + std::string(key.str());
      const std::string place = fmt::format("{}:{}", path, key.source().begin.line);
      if (const ConfigOption* option = find_option(name)) {
        set_node(*option, node, place);
      } else if (const toml::table* section = node.as_table();
                 section != nullptr && is_section(name, *section)) {
        read_table(path, name + ".", *section);
      } else {
        throw SetupError(fmt::format("{} (from {}): unknown key; the nearest is {}", name, place,
                                     nearest_option(name).name));
      }
    }
  }

  /// A table of no option's still names keys worth naming in the error, unless it is empty.
  static bool is_section(const std::string& name, const toml::table& table) {
    if (!table.empty()) return true;
    for (const ConfigOption& option : config_options()) {
      if (option.name.starts_with(name + ".")) return true;
    }
    return false;
  }

  void set_node(const ConfigOption& option, const toml::node& node, const std::string& place) {
    if (std::holds_alternative<ListField>(option.value)) return set_array(option, node, place);
    const bool is_whole = std::holds_alternative<WholeNumberField>(option.value);
    const bool is_weight = std::holds_alternative<WeightField>(option.value);
    const bool is_switch = std::holds_alternative<SwitchField>(option.value);
    const bool fits = is_whole    ? node.is_integer()
                      : is_weight ? node.is_number()
                      : is_switch ? node.is_boolean()
                                  : node.is_string();
    if (!fits) {
      refuse(option.name, print(node), place,
             fmt::format("{}, not {}", option.accepted(), describe(node.type())));
    }
    const bool accepted = is_whole    ? option.set_number(config_, **node.as_integer())
                          : is_weight ? option.set_weight(config_, *node.value<double>())
                          : is_switch ? option.set_switch(config_, **node.as_boolean())
                                      : option.set_text(config_, **node.as_string());
    if (!accepted) refuse(option.name, print(node), place, option.accepted());
    sources_[option.name] = place;
  }

  void set_array(const ConfigOption& option, const toml::node& node, const std::string& place) {
    const toml::array* const array = node.as_array();
    if (array == nullptr) {
      refuse(option.name, print(node), place,
             fmt::format("an array of {}, not {}", option.accepted(), describe(node.type())));
    }
    std::vector<std::string> items;
    for (const toml::node& item : *array) {
      if (!item.is_string()) refuse(option.name, print(node), place, option.accepted());
      items.push_back(**item.as_string());
    }
    if (!option.set_list(config_, items)) refuse(option.name, print(node), place, option.accepted());
    sources_[option.name] = place;
  }

  void set_spelled(const ConfigOption& option, std::string_view text, const std::string& source) {
    if (!option.parse(config_, text)) {
      refuse(option.name, text.empty() ? "\"\"" : text, source, option.accepted());
    }
    sources_[option.name] = source;
  }

  [[nodiscard]] std::string source(std::string_view name) const {
    const auto found = sources_.find(name);
    return found == sources_.end() ? "the default" : found->second;
  }

  ServerConfig config_;
  std::map<std::string_view, std::string> sources_;
};

}  // namespace

ServerConfig load_config(const ConfigSources& sources) {
  Loader loader;
  if (!sources.file.empty()) loader.read_file(sources.file);
  if (sources.environment) loader.read_environment(sources.environment);
  for (const auto& [name, text] : sources.flags) loader.set_flag(name, text);
  return loader.finish();
}

}  // namespace tutti
