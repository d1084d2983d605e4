#include <fmt/ranges.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>

#include "actors/metrics.hpp"
#include "actors/service.hpp"
#include "app/bundled_model.hpp"
#include "app/commands.hpp"
#include "app/net_metrics.hpp"
#include "app/stop_signals.hpp"
#include "app/usable_cores.hpp"
#include "config/config_loader.hpp"
#include "config/options.hpp"
#include "gpu/device.hpp"
#include "model/model_loader.hpp"
#include "net/server.hpp"

namespace tutti {
namespace {

void start_log(const std::string& level) {
  auto log = spdlog::stderr_color_mt("tutti");
  log->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  log->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(log));
}

void log_model(const ConformerCtc& model, const std::filesystem::path& directory) {
  const ConformerSpec& spec = model.spec();
  spdlog::info("model {} from {}: {} blocks, width {}, {} heads, {} tokens", model.name(), directory.string(),
               spec.num_blocks, spec.output_size, spec.attention_heads, spec.vocab_size);
  if (!model.unused_weights().empty()) {
    spdlog::info("{} tensors of the checkpoint are not used: {}", model.unused_weights().size(),
                 fmt::join(model.unused_weights(), " "));
  }
}

/// The weights are packed once, by the first device; all devices are of its kind and read them.
std::shared_ptr<const ConformerCtc> open_model(const ServerConfig& config, const Device& device) {
  const std::filesystem::path directory = model_directory(config.model);
  const std::unique_ptr<Ops> ops = open_device(device);
  auto model =
      std::make_shared<const ConformerCtc>(load_model(directory), *ops, required_positions(config.engine));
  log_model(*model, directory);
  spdlog::info("device {}", ops->description());
  return model;
}

std::vector<OwnerSetup> plan_owners(const ServerConfig& config, const ThreadPlan& plan,
                                    const std::vector<int>& cores, const std::shared_ptr<Metrics>& metrics) {
  std::string note;
  const std::vector<Device> devices = select_devices(config.engine.device, plan.owners, note);
  if (!note.empty()) spdlog::info("{}", note);
  const auto model = open_model(config, devices.front());
  std::vector<OwnerSetup> owners;
  std::vector<std::string> names;
  for (const Device& device : devices) {
    const bool pinned = device.kind == Device::Kind::cpu && plan.pin_owners;
    names.push_back(to_string(device));
    owners.push_back({.device = names.back(),
                      .make_engine =
                          [model, device, engine = config.engine] {
                            return std::make_unique<Engine>(model, open_device(device), engine);
                          },
                      .core = pinned ? std::optional(cores[owners.size()]) : std::nullopt,
                      .metrics = metrics});
  }
  spdlog::info("{} of up to {} streams: {}",
               owners.size() == 1 ? "1 owner" : fmt::format("{} owners", owners.size()),
               config.engine.max_streams, fmt::join(names, " "));
  return owners;
}

NetOptions net_options(const ServerConfig& config, const ThreadPlan& plan) {
  NetOptions options;
  options.bind = config.bind;
  options.io_threads = plan.io_threads;
  options.max_sessions = config.max_sessions;
  options.max_message_bytes = static_cast<size_t>(config.max_message_bytes);
  options.max_queued_events = static_cast<size_t>(config.max_queued_events);
  options.idle_timeout = std::chrono::seconds(config.idle_timeout_s);
  return options;
}

/// The order of the end: the gateway drains, then the sockets close, then the actors go.
void serve(const ServerConfig& config) {
  block_stop_signals();
  start_log(config.log_level);
  const std::vector<int> cores = usable_cores();
  const ThreadPlan plan = plan_threads(static_cast<int>(cores.size()), config.engine.owners);
  const auto metrics = std::make_shared<Metrics>();
  RecognitionService service({.owners = plan_owners(config, plan, cores, metrics),
                              .credit_ms = config.credit_ms,
                              .endpoint = {.silence_after_speech_ms = config.engine.endpoint_silence_ms,
                                           .long_silence_ms = config.engine.endpoint_long_silence_ms,
                                           .max_segment_ms = config.engine.max_segment_ms},
                              .grace = std::chrono::seconds(config.grace_s),
                              .worker_threads = plan.workers},
                             metrics);
  NetServer server(net_options(config, plan), service.gateway(), service.status());
  metrics->add_source(std::make_shared<NetMetrics>(server.stats()));
  server.start();
  service.listening(server);
  spdlog::info("listening on {}", server.address());
  const StopSignals signals([&service](int count) { count == 1 ? service.drain() : service.stop(); });
  service.wait();
  server.stop();
  spdlog::info("stopped");
}

struct ServeOptions {
  std::string config_file;
  bool print_config = false;
  std::vector<std::pair<std::string, std::string>> flags;
};

void add_config_flags(CLI::App& command, ServeOptions& options) {
  const ServerConfig defaults;
  for (const ConfigOption& option : config_options()) {
    const std::string name(option.name);
    const auto note = [&options, name](const std::string& value) { options.flags.emplace_back(name, value); };
    command
        .add_option_function<std::string>(option.flag(), note,
                                          fmt::format("{} Accepts {}; default {}.", option.help,
                                                      option.accepted(), option.to_toml(defaults)))
        ->type_name("VALUE")
        ->group(name.starts_with("server.") ? "Server" : "Engine");
  }
}

}  // namespace

void add_serve(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<ServeOptions>();
  CLI::App* const command = app.add_subcommand("serve", "Recognize speech for clients over WebSocket");
  command->footer(
      "Every option is also a line of the configuration file and an environment variable\n"
      "(--max-streams is TUTTI_ENGINE_MAX_STREAMS); --print-config shows them all. A flag wins over the\n"
      "environment, the environment over the file.\n"
      "SIGTERM or SIGINT lets open streams finish (--grace-s); a second one stops at once.");
  command->add_option("--config", options->config_file, "Configuration file (TOML)")->type_name("FILE");
  command->add_flag("--print-config", options->print_config, "Write the configuration as a file, and exit");
  add_config_flags(*command, *options);
  command->callback([options, &exit_code] {
    const ServerConfig config =
        load_config({.flags = options->flags,
                     .environment = [](const char* name) -> const char* { return std::getenv(name); },
                     .file = options->config_file});
    if (options->print_config) {
      fmt::print("{}", render_toml(config));
    } else {
      serve(config);
    }
    exit_code = 0;
  });
}

}  // namespace tutti
