#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/gpu_owner.hpp"
#include "actors/metrics.hpp"
#include "app/usable_cores.hpp"
#include "cache/pool_budget.hpp"
#include "config/server_config.hpp"
#include "gpu/device.hpp"
#include "model/conformer.hpp"
#include "net/callback_sender.hpp"
#include "net/server.hpp"

namespace tutti {

/// What a configuration comes to on this machine. The parts throw SetupError or std::invalid_argument and can
/// be asked for one by one: `tutti serve` needs them all, `tutti serve --check` tells what each comes to.

struct DevicePlan {
  std::vector<int> cores;
  ThreadPlan threads;
  std::vector<Device> devices;  ///< one owner each
  std::string note;             ///< why not those that were asked for; else empty
};
[[nodiscard]] DevicePlan plan_devices(const EngineConfig& config);

// Both read their files, at the start and whenever these may have changed.

[[nodiscard]] Credentials plan_credentials(const ServerConfig& config);
/// Nothing without TLS.
[[nodiscard]] std::optional<TlsIdentity> plan_certificate(const ServerConfig& config);

/// Reads keys and certificate, and checks the address.
[[nodiscard]] NetOptions plan_network(const ServerConfig& config, const ThreadPlan& threads);

/// Reads the secret, and checks the URL and the networks. Nothing when nobody is to be called.
[[nodiscard]] std::optional<CallbackOptions> plan_callback(const ServerConfig& config);

struct LoadedModel {
  std::shared_ptr<const ConformerCtc> model;
  std::string device;  ///< what it was packed for, in words
};
/// The weights are packed once, by `device`; all devices are of its kind and read them.
[[nodiscard]] LoadedModel open_model(const ServerConfig& config, const Device& device);

/// The memory of each owner's K/V pool; `config.max_num_blocks` becomes its num_blocks. Free memory, the
/// GPU's where it computes, or the budget of the configuration, which on a GPU is what may be added to the
/// model, less what this program holds and what an engine takes besides its pool, which is measured on one
/// with the smallest pool there can be. Ask for it while the model is all that is loaded.
[[nodiscard]] PoolPlan plan_memory(const DevicePlan& plan, const std::shared_ptr<const ConformerCtc>& model,
                                   const EngineConfig& config);

[[nodiscard]] std::vector<OwnerSetup> plan_owners(const DevicePlan& plan,
                                                  const std::shared_ptr<const ConformerCtc>& model,
                                                  const ServerConfig& config, const EngineConfig& engine,
                                                  const std::shared_ptr<Metrics>& metrics);

// Each in words, one line.

[[nodiscard]] std::string describe(const DevicePlan& plan, const EngineConfig& config);
[[nodiscard]] std::string describe(const ConformerCtc& model);
/// "0.0.0.0:8080 with TLS (CN=..., valid until ...), for 2 API keys"
[[nodiscard]] std::string describe(const NetOptions& options, const std::string& address);

}  // namespace tutti
