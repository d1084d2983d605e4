#include "app/cluster_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>

#include "app/version.hpp"

namespace tutti {
namespace {

/// "host-a:4711": unlike that of any other process of the cluster.
std::string process_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) return fmt::format("process {}", getpid());
  return fmt::format("{}:{}", host.data(), getpid());
}

void check_role(const ServerConfig& config) {
  const bool is_gateway = !has_owners(config);
  const bool is_engine = !has_clients(config);
  if (is_gateway && config.cluster_engines.empty()) {
    throw SetupError("server.role = gateway: needs cluster.engines, the names of those that recognize");
  }
  if (is_engine && config.cluster_bind.empty()) {
    throw SetupError("server.role = engine: needs cluster.bind, where gateways find it");
  }
  if (is_gateway && !config.cluster_bind.empty()) {
    throw SetupError(
        "cluster.bind: a gateway has no cores or GPUs for others; leave it empty, or say server.role = both");
  }
  if (is_engine && !config.cluster_engines.empty()) {
    throw SetupError(
        "cluster.engines: an engine has no clients to use them for; leave it empty, or say server.role = "
        "both");
  }
}

}  // namespace

bool has_owners(const ServerConfig& config) { return config.role != "gateway"; }

bool has_clients(const ServerConfig& config) { return config.role != "engine"; }

bool is_of_cluster(const ServerConfig& config) {
  return !config.cluster_bind.empty() || !config.cluster_engines.empty();
}

std::optional<ClusterOptions> plan_cluster(const ServerConfig& config) {
  check_role(config);
  if (!is_of_cluster(config)) return std::nullopt;
  ClusterOptions options;
  options.bind = config.cluster_bind;
  options.bind_any = config.cluster_bind_any;
  options.engines = config.cluster_engines;
  options.credentials = {
      .certificate = config.cluster_certificate, .key = config.cluster_key, .ca = config.cluster_ca};
  options.version = program_version();
  options.name = process_name();
  options.credit_ms = config.credit_ms;
  options.owner_timeout = std::chrono::seconds(config.owner_timeout_s);
  check_cluster(options);
  return options;
}

std::string describe(const ClusterOptions& options, const std::string& identity) {
  std::string text;
  if (!options.bind.empty()) text += fmt::format("gateways find it at {}; ", options.bind);
  if (!options.engines.empty())
    text += fmt::format("uses the engines at {}; ", fmt::join(options.engines, " "));
  return text + identity;
}

}  // namespace tutti
