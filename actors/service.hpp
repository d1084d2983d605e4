#pragma once

#include <caf/fwd.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/event_hub.hpp"
#include "actors/fwd.hpp"
#include "actors/gpu_owner.hpp"
#include "actors/placement.hpp"
#include "actors/ports.hpp"
#include "actors/upload_bridge.hpp"

namespace tutti {

/// What extends a service beyond this process. Calls come from one thread, but on_owner.
class ServiceExtension {
 public:
  virtual ~ServiceExtension() = default;
  /// Whether others use the owners too.
  [[nodiscard]] virtual bool shares_owners() const = 0;
  /// What the actor system has to be, before there is one.
  virtual void configure(caf::actor_system_config& config) = 0;
  /// Before any owner starts. May throw SetupError.
  virtual void prepare(caf::actor_system& system) = 0;
  /// An owner has started, at first or in place of another, if they are shared. From its thread.
  virtual void on_owner(const GpuOwner& owner, const RecognizerInfo& info) = 0;
  /// All else has started.
  virtual void start(const PlacementActor& placement, const std::shared_ptr<ServerStatus>& status) = 0;
  /// The service takes no new streams.
  virtual void drain() = 0;
  /// Ends its actors, and waits for them. After prepare, whether or not it was started.
  virtual void stop() = 0;
};

struct ServiceOptions {
  std::vector<OwnerSetup> owners;  ///< one a device; none where an extension brings others
  int credit_ms = 4000;
  EndpointRules endpoint = EndpointRules::none();  ///< of streams whose client does not say
  std::chrono::seconds grace{10};
  PlacementRules placement;
  UploadLimits uploads;
  EventHubLimits subscribers;
  CallbackRule callback;
  std::filesystem::path trace_folder;  ///< of timelines of sessions; empty = none
  int worker_threads = 1;              ///< for all actors but the owners, which have a thread each
  std::shared_ptr<ServiceExtension> extension = nullptr;
};

/// Of a model that takes over from another.
struct Handover {
  std::string model_before;
  int streams_left = 0;  ///< that go on with models before
};

/// All actors of a server, wired: owners, placement, gateway. What is outside talks to it through ports and
/// needs to know nothing of actors. Whatever calls gateway(), uploads() or subscriptions() must have stopped
/// before the destruction.
class RecognitionService {
 public:
  /// Starts the owners and waits for them. Throws SetupError when one cannot start, or when `credit_ms` does
  /// not fit its model.
  RecognitionService(const ServiceOptions& options, std::shared_ptr<Metrics> metrics);
  RecognitionService(const RecognitionService&) = delete;
  RecognitionService& operator=(const RecognitionService&) = delete;
  ~RecognitionService();

  [[nodiscard]] GatewayPort& gateway();
  [[nodiscard]] UploadPort& uploads();
  [[nodiscard]] SubscriptionPort& subscriptions();
  [[nodiscard]] const StatusPort& status() const;
  /// Of the own owners.
  [[nodiscard]] const RecognizerInfo& info() const;

  /// From now on, of `options`: credit_ms, endpoint, grace, placement and uploads, for what begins then.
  /// `owners`, unless there are none, are started beside those that serve, and get the new streams; the
  /// others go on with their streams and end, one by one, with the last of them. Any number of models may
  /// come to an end at a time.
  /// Waits for the owners. Throws SetupError, and changes nothing, when one cannot start, or when credit_ms,
  /// as it is or as it was, does not fit its model. From any thread, but one at a time.
  Handover use(const ServiceOptions& options);

  /// Ready: whoever calls gateway() accepts sessions.
  void listening();
  /// Refuses new sessions and lets the open ones go on, up to the grace period, which their audio then ends
  /// with. Any thread.
  void drain();
  /// Ends the open streams at once. Any thread.
  void stop();
  /// Whether an owner's thread hangs: it will not end, and nor will the destruction.
  [[nodiscard]] bool has_hung_owner() const;
  /// Waits for the end of drain() or stop(), when subscribers have been told all there was. Throws
  /// std::runtime_error when the gateway failed.
  void wait();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
