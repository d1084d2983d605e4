#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace CLI {
class App;
}

namespace tutti {

/// The subcommands of `tutti bench`, as in commands.hpp.
void add_bench_cache(CLI::App& app, int& exit_code);
void add_bench_engine(CLI::App& app, int& exit_code);
void add_bench_load(CLI::App& app, int& exit_code);

/// Prints what the figures are of and the figures, each by name, a line each or as one JSON object.
void print_figures(std::span<const std::pair<std::string_view, std::string_view>> labels,
                   std::span<const std::pair<std::string_view, double>> figures, bool as_json);

}  // namespace tutti
