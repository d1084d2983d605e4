#include "app/cpu_level_option.hpp"

#include <CLI/CLI.hpp>

#include "config/options.hpp"

namespace tutti {

void add_cpu_level(CLI::App& command, std::string& level) {
  const ConfigOption& option = *find_option("engine.cpu_level");
  command.add_option(option.flag(), level, std::string(option.help))
      ->check(CLI::IsMember(std::get<ChoiceField>(option.value).choices))
      ->capture_default_str();
}

}  // namespace tutti
