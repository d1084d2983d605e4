#pragma once

#include <spdlog/formatter.h>

#include <memory>

namespace tutti {

/// How the program's log looks: time, level, message. Whatever a message holds, names that clients chose
/// among it, it stays one line of UTF-8 without control characters, so that nobody writes lines into the log,
/// or commands to the terminal that shows it.
[[nodiscard]] std::unique_ptr<spdlog::formatter> log_formatter();

}  // namespace tutti
