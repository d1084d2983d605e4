#include "cluster/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/io/middleman.hpp>
#include <caf/openssl/all.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <set>
#include <utility>

#include "cluster/dialer.hpp"
#include "cluster/directory.hpp"
#include "cluster/engine_host.hpp"
#include "cluster/error_queue.hpp"

namespace tutti {
namespace {

// CAF takes a connection that is being made for one that was always silent: one that a heartbeat meets fails
// ("connection_timeout"), and is tried again.
constexpr auto heartbeat_interval = std::chrono::milliseconds(500);
constexpr auto shortest_silence = std::chrono::milliseconds(1500);
constexpr auto connect_timeout = std::chrono::seconds(5);

/// A process that is frozen is cut off by its connections before placement gives up its owners, so that it
/// joins again when it goes on.
caf::timespan connection_timeout(std::chrono::milliseconds owner_timeout) {
  return std::max(shortest_silence, owner_timeout * 3 / 4);
}

void connect(Directory::pointer self, const std::string& address,
             const DirectorySetup::Connected& connected) {
  const HostPort at = split_host_port(address);
  const auto port = static_cast<uint16_t>(std::stoi(at.port));
  self->request(self->system().openssl_manager().actor_handle(), connect_timeout, caf::connect_atom_v,
                at.host, port)
      .then(
          [self, connected](const caf::node_id& node, const caf::strong_actor_ptr& host,
                            const std::set<std::string>&) {
            if (node == self->node()) return connected(FramePeer{}, "it is this process");
            connected(caf::actor_cast<FramePeer>(host), "it publishes nothing");
          },
          [self, connected](const caf::error& error) {
            connected(FramePeer{}, "the connection failed: " + self->system().render(error));
          });
}

}  // namespace

void check_cluster(const ClusterOptions& options) {
  if (!options.bind.empty()) check_cluster_address(options.bind, options.bind_any);
}

struct Cluster::Impl {
  Impl(ClusterOptions given, std::optional<ClusterModel> own)
      : options(std::move(given)), model(std::move(own)), identity(options.credentials) {
    check_cluster(options);
    require_clean_error_queue();
  }

  ClusterOptions options;
  std::optional<ClusterModel> model;
  ClusterIdentity identity;
  std::shared_ptr<ClusterMetrics> metrics = std::make_shared<ClusterMetrics>();
  /// With the links, which end with it.
  template <class Actor>
  void end(Actor& actor) const {
    if (!actor) return;
    caf::scoped_actor self{*system};
    self->send_exit(actor, caf::exit_reason::user_shutdown);
    self->wait_for(actor);
    actor = nullptr;
  }

  /// Gateways that come before the owners have started are told so, and come again.
  void publish() {
    const HostPort at = split_host_port(options.bind);
    const auto port = caf::openssl::publish(caf::actor_cast<caf::actor>(host),
                                            static_cast<uint16_t>(std::stoi(at.port)), at.host.c_str(), true);
    if (!port) {
      end(host);
      throw SetupError(
          fmt::format("cluster.bind = {}: cannot listen: {}", options.bind, system->render(port.error())));
    }
    address = options.bind.substr(0, options.bind.rfind(':') + 1) + std::to_string(*port);
  }

  std::string address;
  caf::actor_system* system = nullptr;
  EngineHost host;
  Directory directory;
  std::unique_ptr<Dialer> dialer;
};

Cluster::Cluster(ClusterOptions options, std::optional<ClusterModel> model)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(model))) {}

Cluster::~Cluster() = default;

const std::string& Cluster::identity() const { return impl_->identity.description(); }

std::string Cluster::address() const { return impl_->address; }

std::shared_ptr<ClusterMetrics> Cluster::metrics() const { return impl_->metrics; }

bool Cluster::shares_owners() const { return !impl_->options.bind.empty(); }

void Cluster::configure(caf::actor_system_config& config) {
  config.load<caf::io::middleman>();
  config.load<caf::openssl::manager>();
  const ClusterCredentials& files = impl_->identity.files();
  config.openssl_certificate = files.certificate;
  config.openssl_key = files.key;
  config.openssl_cafile = files.ca;
  config.set("middleman.app-identifiers", std::vector<std::string>{"tutti"});
  config.set("middleman.heartbeat-interval", caf::timespan(heartbeat_interval));
  config.set("middleman.connection-timeout", connection_timeout(impl_->options.owner_timeout));
  // Frames are bytes: nothing is gained by reading them in other threads.
  config.set("middleman.workers", size_t{0});
}

void Cluster::prepare(caf::actor_system& system) {
  impl_->system = &system;
  if (!shares_owners()) return;
  impl_->host = system.spawn(engine_host, EngineHostSetup{.version = impl_->options.version,
                                                          .name = impl_->options.name,
                                                          .device = impl_->options.device,
                                                          .metrics = impl_->metrics});
  impl_->publish();
}

void Cluster::on_owner(const GpuOwner& owner, const RecognizerInfo& info) {
  caf::anon_send(
      impl_->host, join_atom_v,
      SharedOwner{
          .actor = owner, .info = info, .identity = impl_->model->identity, .model = impl_->model->model});
}

void Cluster::start(const PlacementActor& placement, const std::shared_ptr<ServerStatus>& status) {
  if (impl_->options.engines.empty()) return;
  impl_->dialer = std::make_unique<Dialer>(impl_->identity.files());
  Dialer* const dialer = impl_->dialer.get();
  impl_->directory = impl_->system->spawn(
      directory,
      DirectorySetup{.engines = impl_->options.engines,
                     .version = impl_->options.version,
                     .name = impl_->options.name,
                     .credit_ms = impl_->options.credit_ms,
                     .identity = impl_->model ? std::optional(impl_->model->identity) : std::nullopt,
                     .model = impl_->model ? impl_->model->model : nullptr,
                     .placement = placement,
                     .status = status,
                     .metrics = impl_->metrics,
                     .resolve =
                         [dialer](const Directory& self, const std::string& name) {
                           dialer->resolve(name, [self, name](Result<std::vector<std::string>> addresses) {
                             caf::anon_send(self, Resolved{.name = name, .addresses = std::move(addresses)});
                           });
                         },
                     .probe =
                         [dialer](const Directory& self, const std::string& address) {
                           dialer->probe(address, [self, address](Result<void> outcome) {
                             caf::anon_send(self, Probed{.address = address, .outcome = std::move(outcome)});
                           });
                         },
                     .connect = connect});
}

void Cluster::drain() {
  if (impl_->host) caf::anon_send(impl_->host, drain_atom_v);
}

void Cluster::stop() {
  impl_->end(impl_->directory);
  impl_->end(impl_->host);
  impl_->dialer.reset();  // that the directory calls
}

}  // namespace tutti
