#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "app/commands.hpp"
#include "config/api_keys.hpp"
#include "config/result.hpp"
#include "net/credentials.hpp"

namespace tutti {
namespace {

void keygen(const std::string& name) {
  if (!is_api_key_name(name)) {
    throw SetupError(fmt::format("\"{}\" is no name for a key: up to 64 letters, digits, _ and -", name));
  }
  const std::string key = generate_api_key();
  std::cout << api_key_line({name, api_key_digest(key)}) << std::endl;
  std::cerr << "The key, which is kept nowhere and shown only now:\n" << key << std::endl;
}

}  // namespace

void add_keygen(CLI::App& app, int& exit_code) {
  const auto name = std::make_shared<std::string>();
  CLI::App* const command = app.add_subcommand("keygen", "Make an API key");
  command->footer(
      "Writes the line to store to the standard output and the key itself to the standard error:\n"
      "  tutti keygen alice >> keys.toml && tutti serve --api-keys-file keys.toml");
  command->add_option("name", *name, "Who will use it; the server's log shows this name")->required();
  command->callback([name, &exit_code] {
    keygen(*name);
    exit_code = 0;
  });
}

}  // namespace tutti
