#include "app/bench.hpp"

#include <CLI/CLI.hpp>

#include "app/commands.hpp"

namespace tutti {

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("bench", "Measure");
  command->require_subcommand(1);
  add_bench_cache(*command, exit_code);
  add_bench_engine(*command, exit_code);
  add_bench_load(*command, exit_code);
}

}  // namespace tutti
