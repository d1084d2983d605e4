#pragma once

#include "config/server_config.hpp"

namespace tutti {

/// Tries all that `tutti serve` does before it listens, an engine included, and writes one line a part to the
/// standard output: what it comes to, or what is wrong. False when something is.
[[nodiscard]] bool check_server(const ServerConfig& config);

}  // namespace tutti
