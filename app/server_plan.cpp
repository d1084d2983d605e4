#include "app/server_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "app/bundled_model.hpp"
#include "app/cluster_plan.hpp"
#include "app/file_stamp.hpp"
#include "app/machine_memory.hpp"
#include "engine/engine.hpp"
#include "engine/model_runner.hpp"
#include "engine/recognizer_identity.hpp"
#include "engine/snapshot_size.hpp"
#include "gpu/ops.hpp"
#include "model/model_identity.hpp"
#include "model/model_loader.hpp"

namespace tutti {

DevicePlan plan_devices(const EngineConfig& config) {
  DevicePlan plan;
  plan.cores = usable_cores();
  plan.threads = plan_threads(static_cast<int>(plan.cores.size()), config.owners);
  plan.devices = select_devices(config.device, plan.threads.owners, plan.note);
  return plan;
}

DevicePlan plan_without_devices() {
  DevicePlan plan;
  plan.cores = usable_cores();
  const int half = std::max(1, static_cast<int>(plan.cores.size()) / 2);
  plan.threads = {.owners = 0, .pin_owners = false, .io_threads = half, .workers = half};
  return plan;
}

namespace {

template <class T>
T checked(std::string_view option, Result<T> result) {
  if (!result) throw SetupError(fmt::format("{}: {}", option, result.error().message));
  return std::move(*result);
}

/// Of "PORT=DIALECT" each; that the port is one the configuration has checked.
std::vector<DialectPort> dialect_ports(const std::vector<std::string>& settings) {
  std::vector<DialectPort> ports;
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    const std::string name = setting.substr(equals + 1);
    const proto::DialectEntry* const dialect = proto::find_dialect(name);
    if (dialect == nullptr) {
      std::vector<std::string> known;
      for (const proto::DialectEntry& each : proto::dialects()) {
        known.push_back(each.usual_port == 0 ? std::string(each.name)
                                             : fmt::format("{} (usually {})", each.name, each.usual_port));
      }
      throw SetupError(fmt::format("server.dialect_at has \"{}\", but there is no dialect {}; there are {}",
                                   setting, name, fmt::join(known, ", ")));
    }
    ports.push_back(
        {.port = static_cast<uint16_t>(std::stoi(setting.substr(0, equals))), .dialect = dialect});
  }
  return ports;
}

}  // namespace

Credentials plan_credentials(const ServerConfig& config) {
  std::vector<ApiKey> keys;
  if (!config.api_keys_file.empty()) keys = load_api_keys(config.api_keys_file);
  std::shared_ptr<const JwtVerifier> tokens;
  if (!config.jwt_keys_file.empty()) {
    tokens = std::make_shared<const JwtVerifier>(JwtVerifier::load(
        config.jwt_keys_file, {.audience = config.jwt_audience, .issuer = config.jwt_issuer}));
  }
  return Credentials(std::move(keys), std::move(tokens));
}

std::optional<TlsIdentity> plan_certificate(const ServerConfig& config) {
  if (config.tls_certificate.empty()) return std::nullopt;
  return load_tls_identity(config.tls_certificate, config.tls_key);
}

NetOptions plan_network(const ServerConfig& config, const ThreadPlan& threads) {
  NetOptions options;
  options.io_threads = threads.io_threads;
  options.admin_bind = config.admin_bind;
  if (has_clients(config)) {
    options.bind = config.bind;
    options.dialect_ports = dialect_ports(config.dialect_at);
    options.audiosocket = config.audiosocket;
  } else {
    options.bind.reset();
    if (options.admin_bind.empty()) options.admin_bind = config.bind;
  }
  for (const std::string& range : config.trusted_proxies) {
    options.trusted_proxies.push_back(checked("server.trusted_proxies", AddressRange::parse(range)));
  }
  options.proxy_protocol = config.proxy_protocol;
  options.allowed_origins = config.allowed_origins;
  options.max_sessions = config.max_sessions;
  options.max_connections_per_address = config.max_connections_per_address;
  options.max_header_bytes = static_cast<size_t>(config.max_header_bytes);
  options.handshake_timeout = std::chrono::seconds(config.handshake_timeout_s);
  options.max_stream = std::chrono::seconds(config.max_stream_s);
  options.max_subscribers = config.max_subscribers;
  options.max_message_bytes = static_cast<size_t>(config.max_message_bytes);
  options.max_queued_events = static_cast<size_t>(config.max_queued_events);
  options.max_upload_bytes = static_cast<size_t>(config.max_upload_bytes);
  options.idle_timeout = std::chrono::seconds(config.idle_timeout_s);
  options.insecure = config.insecure;
  options.credentials = plan_credentials(config);
  options.tls = plan_certificate(config);
  check_listener(options);
  return options;
}

namespace {

/// A file's text without white space around it.
std::string read_secret(const std::string& path) {
  constexpr size_t fewest_bytes = 16;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw SetupError(fmt::format("callback.secret_file {}: cannot be read", path));
  std::string secret(std::istreambuf_iterator<char>(file), {});
  constexpr std::string_view blanks = " \t\r\n";
  secret.erase(secret.find_last_not_of(blanks) + 1);
  secret.erase(0, std::min(secret.find_first_not_of(blanks), secret.size()));
  if (secret.size() < fewest_bytes) {
    throw SetupError(fmt::format(
        "callback.secret_file {}: a secret has at least {} bytes; `openssl rand -hex 32` makes one", path,
        fewest_bytes));
  }
  return secret;
}

}  // namespace

std::optional<CallbackOptions> plan_callback(const ServerConfig& config) {
  if (config.callback_url.empty()) return std::nullopt;
  if (config.callback_secret_file.empty()) {
    throw SetupError(
        "callback.url needs callback.secret_file: messages are signed, so that who gets them knows whose "
        "they are");
  }
  CallbackOptions options;
  options.url = checked("callback.url", parse_callback_url(config.callback_url));
  options.secret = read_secret(config.callback_secret_file);
  for (const std::string& range : config.callback_private_networks) {
    options.private_networks.push_back(checked("callback.private_networks", AddressRange::parse(range)));
  }
  options.ca_file = config.callback_ca_file;
  options.timeout = std::chrono::seconds(config.callback_timeout_s);
  options.attempts = config.callback_attempts;
  options.max_queued = static_cast<size_t>(config.callback_max_queued);
  return options;
}

LoadedModel open_model(Checkpoint checkpoint, const EngineConfig& config, const Device& device,
                       const std::string& identity) {
  const std::unique_ptr<Ops> ops = open_device(device, parse_weight_type(config.weights));
  return {
      .model = std::make_shared<const ConformerCtc>(std::move(checkpoint), *ops, required_positions(config),
                                                    required_hypothesis_tokens(config), identity),
      .device = std::string(ops->description())};
}

LoadedModels open_models(Checkpoint checkpoint, const EngineConfig& config, const DevicePlan& plan,
                         const std::string& identity) {
  LoadedModels loaded;
  const auto add = [&](LoadedModel one) {
    loaded.models.push_back(std::move(one.model));
    loaded.device += (loaded.device.empty() ? "" : ", ") + one.device;
  };
  // Tensors are shared by copies of a checkpoint, and given up with the last.
  if (plan.devices.front().kind == Device::Kind::cuda) {
    for (size_t i = 0; i + 1 < plan.devices.size(); ++i) {
      add(open_model(checkpoint, config, plan.devices[i], identity));
    }
  }
  add(open_model(std::move(checkpoint), config, plan.devices.back(), identity));
  loaded.models.resize(plan.devices.size(), loaded.models.back());
  return loaded;
}

namespace {

/// What this program has taken of the memory that the device computes in.
int64_t memory_in_use(const Device& device) {
  return device.kind == Device::Kind::cpu ? allocated_memory() : -device_memory(device).free;
}

/// That all owners share on CPU cores, and one has on a GPU.
MemoryBudget memory_budget(const Device& device, const DevicePlan& plan, const EngineConfig& config,
                           int64_t reserved) {
  constexpr double left_to_others = 0.1;
  const bool on_cpu = device.kind == Device::Kind::cpu;
  MemoryBudget budget{.utilization = 1 - left_to_others,
                      .owners = on_cpu ? static_cast<int>(plan.devices.size()) : 1};
  if (config.memory_budget_mib != 0) {
    return {.source = "engine.memory_budget_mib",
            .available = int64_t{config.memory_budget_mib} << 20,
            .resident = reserved + (on_cpu ? resident_memory() : 0),
            .owners = budget.owners};
  }
  if (!on_cpu) budget.source += " of " + to_string(device);
  budget.available = on_cpu ? available_memory() : device_memory(device).free;
  if (on_cpu) budget.resident = reserved;
  return budget;
}

/// What a stream keeps to go on from with another owner: its last snapshot, and the audio since.
SnapshotSize movable_size(const CacheConfig& cache, const ConformerCtc& model, const EngineConfig& config,
                          std::chrono::milliseconds audio) {
  if (audio == audio.zero()) return {};
  SnapshotSize size = snapshot_size(cache, model, config);
  // Of a window one block is being left, or not begun.
  if (cache.evicts()) size.block = size.block * *cache.max_logical_blocks() / cache.min_blocks_per_stream();
  size.stream += audio.count() * model.spec().fbank.sample_rate / 1000 * static_cast<int64_t>(sizeof(float));
  return size;
}

PoolPlan plan_memory_of(const Device& device, MemoryBudget budget,
                        const std::shared_ptr<const ConformerCtc>& model, const EngineConfig& config,
                        std::chrono::milliseconds audio) {
  const CacheConfig cache = with_model_geometry(cache_limits(config), *model);
  CacheConfig smallest = cache.validated();
  const SnapshotSize movable = movable_size(smallest, *model, config, audio);
  // They are this machine's, wherever the pool is.
  if (device.kind == Device::Kind::cpu) {
    budget.block_copy = movable.block;
    budget.stream_copy = movable.stream;
  }
  smallest.max_num_blocks = static_cast<int>(smallest.max_streams * smallest.min_blocks_per_stream());
  const int64_t block_bytes = bytes_per_kv_block(smallest, ModelRunner::kv_dtype);
  EngineConfig probe = config;
  probe.max_num_blocks = smallest.max_num_blocks;
  const int64_t before = memory_in_use(device);
  Engine engine(model, open_device(device), probe);
  engine.warm_up();
  budget.activations =
      std::max<int64_t>(0, memory_in_use(device) - before - smallest.max_num_blocks * block_bytes);
  PoolPlan pool = plan_pool(cache, block_bytes, budget);
  if (device.kind != Device::Kind::cpu && audio > audio.zero()) {
    const int64_t bytes = pool.num_blocks * movable.block + smallest.max_streams * movable.stream;
    pool.arithmetic += fmt::format("; {} MiB of this machine's memory to move streams with", bytes >> 20);
  }
  return pool;
}

}  // namespace

std::chrono::milliseconds kept_audio(const ServerConfig& config) {
  return std::chrono::milliseconds(config.snapshot_ms == 0 ? 0 : config.snapshot_ms + config.credit_ms);
}

PoolPlan plan_memory(const DevicePlan& plan, const LoadedModels& loaded, const EngineConfig& config,
                     std::chrono::milliseconds audio, int64_t reserved) {
  std::optional<PoolPlan> least;
  for (size_t i = 0; i < plan.devices.size(); ++i) {
    const Device& device = plan.devices[i];
    PoolPlan pool = plan_memory_of(device, memory_budget(device, plan, config, reserved), loaded.models[i],
                                   config, audio);
    if (!least || pool.num_blocks < least->num_blocks) least = std::move(pool);
    if (device.kind == Device::Kind::cpu) break;  // the other cores are like it
  }
  return *least;
}

namespace {

/// Of weights of f32 and bf16: those of bf16 are widened before they are packed.
WeightNeeds weight_needs(const Checkpoint& checkpoint, WeightType type) {
  constexpr int64_t f32_bytes = 4;
  WeightNeeds needs;
  for (const auto& [name, tensor] : checkpoint.weights.views()) {
    const int64_t elements = tensor.shape.elements();
    const bool is_matrix = tensor.shape.rank() > 1;
    needs.kept += elements * (type == WeightType::fp32 || !is_matrix ? f32_bytes
                              : type == WeightType::bf16             ? f32_bytes / 2
                                                                     : f32_bytes / 4);
    if (tensor.dtype == DType::bf16) needs.loading += elements * f32_bytes;
  }
  return needs;
}

/// On a GPU the budget of the configuration is what may be added to the model.
void require_room_for_weights(const WeightNeeds& needs, const DevicePlan& plan, EngineConfig config,
                              int64_t reserved) {
  for (const Device& device : plan.devices) {
    if (device.kind != Device::Kind::cpu) config.memory_budget_mib = 0;
    require_room(needs, memory_budget(device, plan, config, reserved));
    if (device.kind == Device::Kind::cpu) break;
  }
}

/// By the engines of a model that is served: see plan_memory.
int64_t reserved_by(const ServedModel& served, const Device& device) {
  if (device.kind != Device::Kind::cpu) return served.pool.bytes;
  return std::max<int64_t>(0, served.touched_bytes - resident_memory());
}

RecognizerIdentity identify(const Checkpoint& checkpoint, const EngineConfig& config) {
  return {.model = identify_model(checkpoint), .settings = recognition_settings(config)};
}

std::vector<OwnerSetup> plan_owners(const DevicePlan& plan, const LoadedModels& loaded,
                                    const ServerConfig& config, const EngineConfig& engine,
                                    const std::string& identity, const std::shared_ptr<Metrics>& metrics) {
  std::vector<OwnerSetup> owners;
  for (const Device& device : plan.devices) {
    const bool on_cpu = device.kind == Device::Kind::cpu;
    const bool pinned = on_cpu && plan.threads.pin_owners;
    owners.push_back({.device = to_string(device),
                      .model_identity = identity,
                      .make_engine =
                          [model = loaded.models[owners.size()], device, engine] {
                            auto made = std::make_unique<Engine>(model, open_device(device), engine);
                            made->warm_up();
                            return made;
                          },
                      .core = pinned ? std::optional(plan.cores[owners.size()]) : std::nullopt,
                      .snapshots = std::chrono::milliseconds(config.snapshot_ms),
                      .latency_target = std::chrono::milliseconds(config.latency_target_ms),
                      .traced = !config.trace_dir.empty(),
                      .metrics = metrics,
                      .counts_device = !on_cpu});
  }
  return owners;
}

Generation make_generation(Checkpoint checkpoint, std::string files, RecognizerIdentity identity,
                           const ServerConfig& config, const DevicePlan& plan,
                           const std::shared_ptr<Metrics>& metrics, const ServedModel* served) {
  EngineConfig engine = config.engine;
  const int64_t reserved = served == nullptr ? 0 : reserved_by(*served, plan.devices.front());
  if (served != nullptr) {
    require_room_for_weights(weight_needs(checkpoint, parse_weight_type(engine.weights)), plan, engine,
                             reserved);
  }
  LoadedModels loaded = open_models(std::move(checkpoint), engine, plan, to_string(identity));
  const bool has_window = engine.num_left_chunks >= 0;
  if (served != nullptr && engine.max_num_blocks == 0 && !has_window && !served->has_window) {
    engine.max_num_blocks = served->pool.num_blocks;
  }
  PoolPlan pool = plan_memory(plan, loaded, engine, kept_audio(config), reserved);
  engine.max_num_blocks = pool.num_blocks;
  Generation generation;
  generation.owners = plan_owners(plan, loaded, config, engine, to_string(identity), metrics);
  generation.model = {.files = std::move(files),
                      .identity = to_string(identity),
                      .description = describe(loaded.first()),
                      .device = std::move(loaded.device),
                      .unused_weights = loaded.first().unused_weights(),
                      .has_window = has_window,
                      .pool = std::move(pool)};
  // When the streams of a model before have ended, the engines of this one have the place of its.
  const int64_t others = served == nullptr ? resident_memory() : served->touched_bytes - served->pool.bytes;
  generation.model.touched_bytes = others + generation.model.pool.bytes;
  generation.identity = std::move(identity);
  generation.network = loaded.models.front();
  return generation;
}

}  // namespace

Generation load_generation(const ServerConfig& config, const DevicePlan& plan,
                           const std::shared_ptr<Metrics>& metrics) {
  const std::filesystem::path directory = model_directory(config.model);
  std::string files = stamp_files(directory);
  Checkpoint checkpoint = load_model(directory);
  RecognizerIdentity identity = identify(checkpoint, config.engine);
  return make_generation(std::move(checkpoint), std::move(files), std::move(identity), config, plan, metrics,
                         nullptr);
}

std::optional<Generation> load_if_changed(const ServerConfig& config, const DevicePlan& plan,
                                          const std::shared_ptr<Metrics>& metrics, ServedModel& served,
                                          bool is_changed) {
  const std::filesystem::path directory = model_directory(config.model);
  std::string files = stamp_files(directory);
  if (!is_changed && files == served.files) return std::nullopt;
  Checkpoint checkpoint = load_model(directory);
  RecognizerIdentity identity = identify(checkpoint, config.engine);
  if (!is_changed && to_string(identity) == served.identity) {
    served.files = std::move(files);
    return std::nullopt;
  }
  return make_generation(std::move(checkpoint), std::move(files), std::move(identity), config, plan, metrics,
                         &served);
}

ServiceOptions plan_service(const ServerConfig& config, const ThreadPlan& threads) {
  ServiceOptions options;
  options.credit_ms = config.credit_ms;
  options.endpoint = {.silence_after_speech_ms = config.engine.endpoint_silence_ms,
                      .long_silence_ms = config.engine.endpoint_long_silence_ms,
                      .max_segment_ms = config.engine.max_segment_ms};
  options.grace = std::chrono::seconds(config.grace_s);
  options.placement = {.max_wait = std::chrono::milliseconds(config.max_wait_ms),
                       .max_waiting = static_cast<size_t>(config.max_waiting),
                       .owner_timeout = std::chrono::seconds(config.owner_timeout_s),
                       .owners_may_join = !config.cluster_engines.empty()};
  options.uploads = {.max_uploads = config.max_uploads, .max_seconds = config.max_upload_seconds};
  options.subscribers = {.max_subscribers = config.max_subscribers};
  options.trace_folder = config.trace_dir;
  options.worker_threads = threads.workers;
  return options;
}

std::string describe(const DevicePlan& plan, const EngineConfig& config) {
  std::vector<std::string> names;
  for (const Device& device : plan.devices) names.push_back(to_string(device));
  return fmt::format("{} of up to {} streams: {}; {} decoder",
                     names.size() == 1 ? "1 owner" : fmt::format("{} owners", names.size()),
                     config.max_streams, fmt::join(names, " "), config.decoder);
}

std::string describe(const ConformerCtc& model) {
  const ConformerSpec& spec = model.spec();
  return fmt::format("{}: {} blocks, width {}, {} heads, {} tokens", model.name(), spec.num_blocks,
                     spec.output_size, spec.attention_heads, spec.vocab_size);
}

std::string describe(const NetOptions& options, const std::string& address) {
  const size_t keys = options.credentials.size();
  const bool takes_tokens = options.credentials.takes_tokens();
  std::string clients;
  if (keys > 0) clients = fmt::format("{} API key{}", keys, keys == 1 ? "" : "s");
  if (takes_tokens) clients += clients.empty() ? "signed tokens" : " and signed tokens";
  return fmt::format("{} {}, for {}", address,
                     options.tls ? fmt::format("with TLS ({})", options.tls->description) : "without TLS",
                     clients.empty() ? "everybody" : clients);
}

}  // namespace tutti
