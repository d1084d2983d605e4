#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <string>

#include "app/commands.hpp"
#include "app/version.hpp"

int main(int argc, char** argv) {
  CLI::App app("Tutti: streaming speech recognition", "tutti");
  app.footer("tutti COMMAND --help says more about a command.");
  app.set_version_flag("--version", "tutti " + std::string(tutti::program_version()));
  app.require_subcommand(1);
  int exit_code = 0;
  tutti::add_serve(app, exit_code);
  tutti::add_listen(app, exit_code);
  tutti::add_keygen(app, exit_code);
  tutti::add_transcribe(app, exit_code);
  tutti::add_verify(app, exit_code);
  tutti::add_convert(app, exit_code);
  tutti::add_models(app, exit_code);
  tutti::add_bench(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e);
  } catch (const std::exception& e) {
    std::cerr << "tutti: " << e.what() << '\n';
    return 1;
  }
  return exit_code;
}
