#include "app/bench.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "app/commands.hpp"
#include "config/json_writer.hpp"

namespace tutti {

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("bench", "Measure");
  command->require_subcommand(1);
  add_bench_cache(*command, exit_code);
  add_bench_engine(*command, exit_code);
  add_bench_load(*command, exit_code);
}

void write_figures(JsonWriter& json, Labels labels, Figures figures) {
  for (const auto& [name, value] : labels) json.key(name).string(value);
  for (const auto& [name, value] : figures) json.key(name).number(static_cast<float>(value));
}

void print_figures(Labels labels, Figures figures, bool as_json) {
  if (!as_json) {
    for (const auto& [name, value] : labels) fmt::print("{:<20} {}\n", name, value);
    for (const auto& [name, value] : figures) fmt::print("{:<20} {:.4g}\n", name, value);
    return;
  }
  JsonWriter json;
  json.begin_object();
  write_figures(json, labels, figures);
  fmt::print("{}\n", std::move(json.end_object()).take());
}

}  // namespace tutti
