#pragma once

#include <spdlog/formatter.h>

#include <memory>
#include <string_view>

namespace tutti {

/// How the program's log looks, one line for a message, which may begin with fields (config/log_line.hpp).
/// "text" is time, level and message; "json" an object with `time` (UTC), `level`, the fields and `message`.
/// Whatever a message holds, names that clients chose among it, it stays one line of UTF-8 without control
/// characters, so that nobody writes lines into the log, or commands to the terminal that shows it.
[[nodiscard]] std::unique_ptr<spdlog::formatter> log_formatter(std::string_view format);

}  // namespace tutti
