#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/service.hpp"
#include "cluster/cluster_metrics.hpp"
#include "cluster/credentials.hpp"
#include "engine/recognizer_identity.hpp"

namespace tutti {

struct ClusterOptions {
  std::string bind;       ///< ADDRESS:PORT where gateways find this process's owners; empty = nowhere
  bool bind_any = false;  ///< it may be an address that others than the cluster reach
  std::vector<std::string> engines;  ///< HOST:PORT of the engines that this process uses
  ClusterCredentials credentials;
  std::string version;  ///< of the program: all of a cluster have the same
  std::string name;     ///< of this process, for the logs of others
  std::string device;   ///< what the own owners compute with, in words
  int credit_ms = 4000;
  std::chrono::milliseconds owner_timeout{5000};  ///< a connection that is silent for about so long is lost
};

/// What an own owner recognizes with.
struct ClusterModel {
  RecognizerIdentity identity;
  std::shared_ptr<const ConformerCtc> model;
};

/// Throws SetupError when the address is not one to listen on.
void check_cluster(const ClusterOptions& options);

/// The cluster of a service: its owners for gateways elsewhere, the owners of engines elsewhere for it, or
/// both. docs/cluster.md says how it works.
class Cluster final : public ServiceExtension {
 public:
  /// Throws SetupError for what check_cluster or ClusterIdentity refuse. `model` is that of the own owners;
  /// nothing where there are none.
  Cluster(ClusterOptions options, std::optional<ClusterModel> model);
  ~Cluster() override;

  /// "CN=..., valid until ...": who this process is to the others.
  [[nodiscard]] const std::string& identity() const;
  /// Where gateways find it, with the port that was chosen for port 0; empty = nowhere.
  [[nodiscard]] std::string address() const;
  [[nodiscard]] std::shared_ptr<ClusterMetrics> metrics() const;

  [[nodiscard]] bool shares_owners() const override;
  void configure(caf::actor_system_config& config) override;
  void prepare(caf::actor_system& system) override;
  void on_owner(const GpuOwner& owner, const RecognizerInfo& info) override;
  void start(const PlacementActor& placement, const std::shared_ptr<ServerStatus>& status) override;
  void drain() override;
  void stop() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
