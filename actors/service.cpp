#include "actors/service.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <ctime>
#include <stdexcept>
#include <utility>

#include "actors/credit.hpp"
#include "actors/event_hub_actor.hpp"
#include "actors/gateway.hpp"
#include "actors/metrics.hpp"
#include "actors/placement.hpp"
#include "actors/trace_writer.hpp"
#include "actors/upload_actor.hpp"

namespace tutti {
namespace {

struct SystemConfig : caf::actor_system_config {
  SystemConfig(int worker_threads, ServiceExtension* extension) {
    // Work sharing idles at a sixth of what work stealing costs.
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", static_cast<size_t>(worker_threads));
    if (extension != nullptr) extension->configure(*this);
  }
};

Started start(caf::scoped_actor& self, const GpuOwner& owner) {
  Started started;
  self->request(owner, caf::infinite, start_atom_v)
      .receive([&](const Started& answer) { started = answer; },
               [&](const caf::error& error) { started = fail("setup", caf::to_string(error)); });
  return started;
}

/// Ends the owners it holds when a later part of the setup fails: the system waits for every actor.
struct OwnerGroup {
  OwnerGroup() = default;
  OwnerGroup(const OwnerGroup&) = delete;
  OwnerGroup& operator=(const OwnerGroup&) = delete;
  ~OwnerGroup() {
    for (const GpuOwner& owner : actors) caf::anon_send_exit(owner, caf::exit_reason::user_shutdown);
  }
  std::vector<GpuOwner> actors;
};

/// Ends the actors of the extension, if there is one, before the system waits for them.
struct ExtensionGuard {
  ExtensionGuard(std::shared_ptr<ServiceExtension> extending, caf::actor_system& system)
      : extension(std::move(extending)) {
    if (extension) extension->prepare(system);
  }
  ExtensionGuard(const ExtensionGuard&) = delete;
  ExtensionGuard& operator=(const ExtensionGuard&) = delete;
  ~ExtensionGuard() {
    if (extension) extension->stop();
  }
  [[nodiscard]] bool shares_owners() const { return extension && extension->shares_owners(); }

  const std::shared_ptr<ServiceExtension> extension;
};

}  // namespace

struct RecognitionService::Impl {
  Impl(const ServiceOptions& options, std::shared_ptr<Metrics> shared_metrics)
      : metrics(std::move(shared_metrics)),
        status(std::make_shared<ServerStatus>(*metrics)),
        config(options.worker_threads, options.extension.get()),
        system(config),
        guard(options.extension, system),
        has_own_owners(!options.owners.empty()),
        credit_ms(options.credit_ms) {
    // Before there is anything to be ended should it fail.
    std::shared_ptr<TraceWriter> traces;
    if (!options.trace_folder.empty()) traces = std::make_shared<TraceWriter>(system, options.trace_folder);
    OwnerGroup owners;
    std::vector<PlacedOwner> started = start_owners(options.owners, owners, info);
    if (has_own_owners) {
      check_credit(credit_ms, info.chunk_ms, info.max_buffered_ms);
      show_model();
    }
    placement = system.spawn(
        placement_actor,
        PlacementSetup{
            .owners = std::move(started), .rules = options.placement, .status = status, .metrics = metrics});
    owners.actors.clear();  // they are its
    gateway = system.spawn(gateway_actor,
                           GatewaySetup{.placement = placement, .status = status, .grace = options.grace});
    hub = std::make_unique<EventHubBridge>(system, options.subscribers, metrics, options.callback);
    bridge = std::make_unique<GatewayBridge>(system, gateway, *hub, metrics, options.credit_ms,
                                             options.endpoint, std::move(traces));
    uploads = std::make_unique<UploadBridge>(
        [this](const UploadSetup& setup, const GatewayActor& let_in) {
          return spawn_upload(system, setup, let_in);
        },
        gateway, metrics, options.uploads, options.credit_ms);
    if (guard.extension) guard.extension->start(placement, status);
  }

  // Streams first, while there is an owner to take their leases back. The system waits for actors, and an
  // actor for its handles: they go before it.
  ~Impl() {
    if (!gateway) return;
    caf::anon_send(gateway, stop_atom_v);
    await(gateway);
    if (hub) caf::anon_send(hub->actor(), stop_atom_v);
    caf::anon_send_exit(placement, caf::exit_reason::user_shutdown);
  }

  /// Whether an actor quit by itself; false when it failed.
  template <class Actor>
  bool await(const Actor& actor) {
    caf::scoped_actor self{system};
    self->monitor(actor);
    bool quit = false;
    self->receive([&](const caf::down_msg& down) { quit = !down.reason; });
    return quit;
  }

  void show_model() const {
    status->set_model({.name = info.model, .loaded_at = static_cast<int64_t>(std::time(nullptr))});
  }

  Handover use(const ServiceOptions& options) {
    Handover handover;
    if (!options.owners.empty()) {
      handover = swap(options);
    } else if (has_own_owners) {
      check_credit(options.credit_ms, info.chunk_ms, info.max_buffered_ms);
    } else if (options.credit_ms != credit_ms) {
      throw SetupError("credit_ms: without owners of its own a server takes another with a restart");
    }
    caf::anon_send(placement, rules_atom_v, options.placement);
    caf::anon_send(gateway, grace_atom_v, caf::timespan(options.grace));
    bridge->use(options.credit_ms, options.endpoint);
    uploads->use(options.uploads, options.credit_ms);
    credit_ms = options.credit_ms;
    return handover;
  }

  Handover swap(const ServiceOptions& options) {
    OwnerGroup owners;
    RecognizerInfo next;
    std::vector<PlacedOwner> started = start_owners(options.owners, owners, next);
    // A session of before may still be on its way to an owner.
    for (const int credit : {credit_ms, options.credit_ms}) {
      check_credit(credit, next.chunk_ms, next.max_buffered_ms);
    }
    Handover handover{.model_before = info.model};
    caf::scoped_actor self{system};
    self->request(placement, caf::infinite, swap_atom_v, NewOwners{std::move(started)})
        .receive([&](int streams) { handover.streams_left = streams; },
                 [](const caf::error& error) { throw SetupError(caf::to_string(error)); });
    owners.actors.clear();  // they are its
    info = next;
    show_model();
    return handover;
  }

  /// Each is in `owners` as soon as it is there.
  std::vector<PlacedOwner> start_owners(const std::vector<OwnerSetup>& setups, OwnerGroup& owners,
                                        RecognizerInfo& started_info) {
    caf::scoped_actor self{system};
    std::vector<PlacedOwner> started;
    for (OwnerSetup setup : setups) {
      if (guard.shares_owners()) {
        setup.on_started = [extension = guard.extension](const GpuOwner& owner, const RecognizerInfo& of) {
          extension->on_owner(owner, of);
        };
      }
      const auto owner = system.spawn<caf::detached>(gpu_owner, setup);
      owners.actors.push_back(owner);
      const Started answer = start(self, owner);
      if (!answer) throw SetupError(fmt::format("{}: {}", setup.device, answer.error().message));
      started_info = *answer;
      started.push_back({.actor = owner,
                         .max_streams = answer->max_streams,
                         .model_identity = answer->model_identity,
                         .replace = [this, setup] { return system.spawn<caf::detached>(gpu_owner, setup); },
                         .is_shared = guard.shares_owners()});
    }
    return started;
  }

  std::shared_ptr<Metrics> metrics;
  std::shared_ptr<ServerStatus> status;
  RecognizerInfo info;
  SystemConfig config;
  caf::actor_system system;
  ExtensionGuard guard;
  const bool has_own_owners;
  int credit_ms;  // of sessions that open
  PlacementActor placement;
  GatewayActor gateway;
  std::unique_ptr<EventHubBridge> hub;
  std::unique_ptr<GatewayBridge> bridge;
  std::unique_ptr<UploadBridge> uploads;
};

RecognitionService::RecognitionService(const ServiceOptions& options, std::shared_ptr<Metrics> metrics)
    : impl_(std::make_unique<Impl>(options, std::move(metrics))) {}

RecognitionService::~RecognitionService() = default;

GatewayPort& RecognitionService::gateway() { return *impl_->bridge; }

SubscriptionPort& RecognitionService::subscriptions() { return *impl_->hub; }

UploadPort& RecognitionService::uploads() { return *impl_->uploads; }

const StatusPort& RecognitionService::status() const { return *impl_->status; }

const RecognizerInfo& RecognitionService::info() const { return impl_->info; }

Handover RecognitionService::use(const ServiceOptions& options) { return impl_->use(options); }

void RecognitionService::listening() { impl_->status->set_listening(); }

bool RecognitionService::has_hung_owner() const { return impl_->status->has_hung_owner(); }

void RecognitionService::drain() {
  if (impl_->guard.extension) impl_->guard.extension->drain();
  caf::anon_send(impl_->gateway, drain_atom_v);
}

void RecognitionService::stop() { caf::anon_send<caf::message_priority::high>(impl_->gateway, stop_atom_v); }

void RecognitionService::wait() {
  if (!impl_->await(impl_->gateway)) throw std::runtime_error("the gateway failed; see the log");
  // What the sessions heard last is in its mailbox.
  caf::anon_send(impl_->hub->actor(), stop_atom_v);
  impl_->await(impl_->hub->actor());
}

}  // namespace tutti
