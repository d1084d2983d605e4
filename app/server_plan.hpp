#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/gpu_owner.hpp"
#include "actors/metrics.hpp"
#include "actors/service.hpp"
#include "app/usable_cores.hpp"
#include "cache/pool_budget.hpp"
#include "config/server_config.hpp"
#include "engine/recognizer_identity.hpp"
#include "gpu/device.hpp"
#include "model/checkpoint.hpp"
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
/// Of a process without owners: its cores are for sockets and actors.
[[nodiscard]] DevicePlan plan_without_devices();

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
/// Packed by `device`, for it and those that read the same memory. `identity`: see ConformerCtc.
[[nodiscard]] LoadedModel open_model(Checkpoint checkpoint, const EngineConfig& config, const Device& device,
                                     const std::string& identity);

/// A model as each owner reads it: packed once for all CPU cores, and once for every GPU.
struct LoadedModels {
  std::vector<std::shared_ptr<const ConformerCtc>> models;  ///< of each device of the plan
  std::string device;                                       ///< what they were packed for, in words

  [[nodiscard]] const ConformerCtc& first() const { return *models.front(); }
};
[[nodiscard]] LoadedModels open_models(Checkpoint checkpoint, const EngineConfig& config,
                                       const DevicePlan& plan, const std::string& identity = {});

/// The memory of each owner's K/V pool, and of what its streams keep to move, so much `audio` among it;
/// `config.max_num_blocks` becomes its num_blocks. Free memory, the GPU's where it computes, or the budget of
/// the configuration, which on a GPU is what may be added to the model; less what this program holds,
/// `reserved` bytes that other engines of it have and have not touched yet (on a GPU: have), and what an
/// engine takes besides its pool, which is measured on one with the smallest pool there can be: ask for it
/// while nothing else is loaded. Of several GPUs, each of which must hold its pool, the one with the least
/// room decides: a stream may move to any of them.
[[nodiscard]] PoolPlan plan_memory(const DevicePlan& plan, const LoadedModels& loaded,
                                   const EngineConfig& config, std::chrono::milliseconds audio,
                                   int64_t reserved = 0);
/// How much of its audio a stream keeps so that it can move, at most; 0 = it cannot.
[[nodiscard]] std::chrono::milliseconds kept_audio(const ServerConfig& config);

/// A model that is served, or is going to be.
struct ServedModel {
  std::string files;        ///< stamp_files of its directory, before they were read
  std::string identity;     ///< of what decides its results: RecognizerInfo::model_identity
  std::string description;  ///< a line
  std::string device;       ///< what it was packed for, in words
  std::vector<std::string> unused_weights;
  bool has_window = false;  ///< EngineConfig::num_left_chunks
  PoolPlan pool;
  int64_t touched_bytes = 0;  ///< of the whole program, when its engines have been used in full
};

/// The owners of one model, which hold it. Not started yet.
struct Generation {
  ServedModel model;
  RecognizerIdentity identity;  ///< of which ServedModel::identity is the text
  std::shared_ptr<const ConformerCtc> network;
  std::vector<OwnerSetup> owners;
};

/// Loads the model of `config` and plans its memory.
[[nodiscard]] Generation load_generation(const ServerConfig& config, const DevicePlan& plan,
                                         const std::shared_ptr<Metrics>& metrics);

/// The same beside `served`, where it has to fit as a whole: weights, activations and pool, in what is free
/// or what the budget leaves. With unlimited history, whose pool otherwise has all that is free, it is as
/// large as that of `served`. Nothing when neither the configuration `is_changed` nor what the model's files
/// say; `served` then has the stamp they have now.
[[nodiscard]] std::optional<Generation> load_if_changed(const ServerConfig& config, const DevicePlan& plan,
                                                        const std::shared_ptr<Metrics>& metrics,
                                                        ServedModel& served, bool is_changed);

/// All but the owners and who is called.
[[nodiscard]] ServiceOptions plan_service(const ServerConfig& config, const ThreadPlan& threads);

// Each in words, one line.

[[nodiscard]] std::string describe(const DevicePlan& plan, const EngineConfig& config);
[[nodiscard]] std::string describe(const ConformerCtc& model);
/// "0.0.0.0:8080 with TLS (CN=..., valid until ...), for 2 API keys"
[[nodiscard]] std::string describe(const NetOptions& options, const std::string& address);

}  // namespace tutti
