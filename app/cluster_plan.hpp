#pragma once

#include <optional>
#include <string>

#include "cluster/cluster.hpp"
#include "config/server_config.hpp"

namespace tutti {

/// Whether this process recognizes; otherwise the engines of its cluster do.
[[nodiscard]] bool has_owners(const ServerConfig& config);
/// Whether this process has clients of its own; otherwise its gateways have.
[[nodiscard]] bool has_clients(const ServerConfig& config);
/// Whether there are other processes that it shares streams with.
[[nodiscard]] bool is_of_cluster(const ServerConfig& config);

/// What the cluster part of a configuration comes to; nothing for a server that is alone. Throws SetupError
/// for a role that lacks what it needs, and for an address that is not one to listen on.
[[nodiscard]] std::optional<ClusterOptions> plan_cluster(const ServerConfig& config);

/// "gateways find it at 10.0.0.3:7000; uses the engines at a:7000 b:7000; CN=..., valid until ...", in one
/// line.
[[nodiscard]] std::string describe(const ClusterOptions& options, const std::string& identity);

}  // namespace tutti
