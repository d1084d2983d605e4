#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tutti {

/// Adds --cpu-level to a command that computes on the CPU by itself; `level` is for cpu::use_level.
void add_cpu_level(CLI::App& command, std::string& level);

}  // namespace tutti
