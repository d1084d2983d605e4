#pragma once

#include <span>
#include <string_view>
#include <utility>

namespace CLI {
class App;
}

namespace tutti {

class JsonWriter;

/// The subcommands of `tutti bench`, as in commands.hpp.
void add_bench_cache(CLI::App& app, int& exit_code);
void add_bench_engine(CLI::App& app, int& exit_code);
void add_bench_load(CLI::App& app, int& exit_code);

/// What figures are of, and figures, each by name.
using Labels = std::span<const std::pair<std::string_view, std::string_view>>;
using Figures = std::span<const std::pair<std::string_view, double>>;
/// As members of the object that is begun.
void write_figures(JsonWriter& json, Labels labels, Figures figures);
/// A line each, or as one JSON object.
void print_figures(Labels labels, Figures figures, bool as_json);

}  // namespace tutti
