#pragma once

namespace CLI {
class App;
}

namespace tutti {

/// Each adds one subcommand of `tutti`; when chosen, it runs inside CLI parsing and leaves its exit status in
/// `exit_code`. Errors are thrown (SetupError, std::invalid_argument) and reported by main.
void add_convert(CLI::App& app, int& exit_code);
void add_keygen(CLI::App& app, int& exit_code);
void add_models(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_serve(CLI::App& app, int& exit_code);
void add_listen(CLI::App& app, int& exit_code);
void add_transcribe(CLI::App& app, int& exit_code);
void add_verify(CLI::App& app, int& exit_code);

}  // namespace tutti
