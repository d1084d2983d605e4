#pragma once

namespace CLI {
class App;
}

namespace tutti {

/// The subcommands of `tutti bench`, as in commands.hpp.
void add_bench_cache(CLI::App& app, int& exit_code);
void add_bench_engine(CLI::App& app, int& exit_code);
void add_bench_load(CLI::App& app, int& exit_code);

}  // namespace tutti
