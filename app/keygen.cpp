#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "config/api_keys.hpp"
#include "config/result.hpp"
#include "net/credentials.hpp"

namespace tutti {
namespace {

struct KeygenOptions {
  std::string name;
  std::vector<std::string> allow;
  ClientLimits limits;
};

ClientTerms terms_of(const KeygenOptions& options) {
  ClientTerms terms{.allowed = {}, .limits = options.limits};
  for (const std::string& name : options.allow) {
    const auto right = parse_right(name);
    if (!right) {
      throw SetupError(fmt::format("--allow {}: expected {}", name, to_string(all_rights())));
    }
    terms.allowed.add(*right);
  }
  if (options.allow.empty()) terms.allowed = ClientTerms{}.allowed;
  return terms;
}

void keygen(const KeygenOptions& options) {
  if (!is_api_key_name(options.name)) {
    throw SetupError(
        fmt::format("\"{}\" is no name for a key: up to 64 letters, digits, _ and -", options.name));
  }
  const ClientTerms terms = terms_of(options);
  const std::string key = generate_api_key();
  std::cout << api_key_line({options.name, api_key_digest(key), terms}) << std::endl;
  std::cerr << "The key, which is kept nowhere and shown only now:\n" << key << std::endl;
}

}  // namespace

void add_keygen(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<KeygenOptions>();
  CLI::App* const command = app.add_subcommand("keygen", "Make an API key");
  command->footer(
      "Writes the line to store to the standard output and the key itself to the standard error:\n"
      "  tutti keygen alice >> keys.toml && tutti serve --api-keys-file keys.toml");
  command->add_option("name", options->name, "Who will use it; the server's log shows this name")->required();
  command
      ->add_option(
          "--allow", options->allow,
          fmt::format("What it may be used for: {}; all but admin without it", to_string(all_rights())))
      ->delimiter(',')
      ->allow_extra_args(false);
  for (const auto& [name, value] : limit_fields) {
    std::string flag = fmt::format("--{}", name);
    std::ranges::replace(flag, '_', '-');
    command->add_option(flag, options->limits.*value, "0 is no limit")->check(CLI::Range(0, largest_limit));
  }
  command->callback([options, &exit_code] {
    keygen(*options);
    exit_code = 0;
  });
}

}  // namespace tutti
