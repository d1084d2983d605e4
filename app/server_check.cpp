#include "app/server_check.hpp"

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <string_view>
#include <utility>

#include "actors/trace_writer.hpp"
#include "app/bundled_model.hpp"
#include "app/cluster_plan.hpp"
#include "app/server_plan.hpp"
#include "engine/engine.hpp"
#include "gpu/cpu/level.hpp"
#include "model/model_loader.hpp"

namespace tutti {
namespace {

/// Prints what `part` returns, or the error it throws; whether it threw none.
bool passes(std::string_view name, const std::function<std::string()>& part) {
  try {
    fmt::print("{:<8} {}\n", name, part());
    return true;
  } catch (const std::exception& error) {
    fmt::print("{:<8} FAILED: {}\n", name, error.what());
    return false;
  }
}

}  // namespace

bool check_server(const ServerConfig& config) {
  DevicePlan devices = plan_without_devices();
  if (has_owners(config) && !passes("devices", [&] {
        cpu::use_level(config.engine.cpu_level);
        devices = plan_devices(config.engine);
        return describe(devices, config.engine) + (devices.note.empty() ? "" : "; " + devices.note);
      })) {
    return false;
  }
  bool good = passes("listen", [&] {
    const NetOptions options = plan_network(config, devices.threads);
    const std::string warning = options.tls ? options.tls->warning : "";
    return describe(options, options.bind.value_or(options.admin_bind)) +
           (warning.empty() ? "" : "; warning: " + warning);
  });
  good &= passes("callback", [&] {
    auto options = plan_callback(config);
    if (!options) return std::string("nobody is called");
    const CallbackSender sender(std::move(*options));
    return config.callback_url;
  });
  if (!config.trace_dir.empty()) {
    good &= passes("traces", [&] {
      TraceWriter::check(config.trace_dir);
      return config.trace_dir;
    });
  }
  good &= passes("cluster", [&] {
    const auto options = plan_cluster(config);
    return options ? describe(*options, ClusterIdentity(options->credentials).description())
                   : std::string("there is none");
  });
  if (!has_owners(config)) return good;
  LoadedModels loaded;
  good &= passes("model", [&] {
    loaded = open_models(load_model(model_directory(config.model)), config.engine, devices);
    return fmt::format("{}; {}", describe(loaded.first()), loaded.device);
  });
  if (loaded.models.empty()) return false;
  good &= passes("engine", [&] {
    const PoolPlan pool = plan_memory(devices, loaded, config.engine, kept_audio(config));
    EngineConfig engine_config = config.engine;
    engine_config.max_num_blocks = pool.num_blocks;
    const Engine engine(loaded.models.front(), open_device(devices.devices.front()), engine_config);
    return fmt::format("chunks of {} ms at {} Hz; K/V pool: {}", engine.chunk_ms(), engine.sample_rate(),
                       pool.arithmetic);
  });
  return good;
}

}  // namespace tutti
