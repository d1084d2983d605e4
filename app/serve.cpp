#include <fmt/ranges.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/metrics.hpp"
#include "actors/service.hpp"
#include "app/administration.hpp"
#include "app/bundled_model.hpp"
#include "app/cluster_plan.hpp"
#include "app/commands.hpp"
#include "app/gpu_metrics.hpp"
#include "app/log_format.hpp"
#include "app/net_metrics.hpp"
#include "app/server_check.hpp"
#include "app/server_plan.hpp"
#include "app/signal_watch.hpp"
#include "config/config_loader.hpp"
#include "config/options.hpp"
#include "gpu/cpu/level.hpp"
#include "net/server.hpp"

namespace tutti {
namespace {

void start_log(const ServerConfig& config) {
  auto log = spdlog::stderr_color_mt("tutti");
  log->set_formatter(log_formatter(config.log_format));
  log->set_level(spdlog::level::from_str(config.log_level));
  spdlog::set_default_logger(std::move(log));
}

/// Also says what is worth a look before the first client comes.
Generation first_generation(const ServerConfig& config, const DevicePlan& plan,
                            const std::shared_ptr<Metrics>& metrics) {
  if (!plan.note.empty()) spdlog::info("{}", plan.note);
  Generation first = load_generation(config, plan, metrics);
  const ServedModel& model = first.model;
  spdlog::info("model {} from {}", model.description, model_directory(config.model).string());
  if (!model.unused_weights.empty()) {
    spdlog::info("{} tensors of the checkpoint are not used: {}", model.unused_weights.size(),
                 fmt::join(model.unused_weights, " "));
  }
  spdlog::info("device {}", model.device);
  spdlog::info("{}", describe(plan, config.engine));
  spdlog::info("K/V pool: {}", model.pool.arithmetic);
  return first;
}

/// Of this process; null when it is alone.
std::shared_ptr<Cluster> make_cluster(std::optional<ClusterOptions> options, const Generation& own) {
  if (!options) return nullptr;
  options->device = own.model.device;
  std::optional<ClusterModel> model;
  if (own.network) model = {.identity = own.identity, .model = own.network};
  return std::make_shared<Cluster>(std::move(*options), std::move(model));
}

/// The order of the end: the gateway drains, then the sockets close, then the actors go.
void serve(const std::function<ServerConfig()>& read_config) {
  const ServerConfig config = read_config();
  block_signals({SIGTERM, SIGINT, SIGHUP});
  start_log(config);
  cpu::use_level(config.engine.cpu_level);
  const DevicePlan plan = has_owners(config) ? plan_devices(config.engine) : plan_without_devices();
  // Before the model, which takes longer: most mistakes are here.
  const NetOptions network = plan_network(config, plan.threads);
  if (network.tls && !network.tls->warning.empty()) spdlog::warn("{}", network.tls->warning);
  const std::optional<ClusterOptions> cluster_options = plan_cluster(config);
  if (cluster_options) {
    const ClusterIdentity identity(cluster_options->credentials);
    spdlog::info("cluster: {}", describe(*cluster_options, identity.description()));
  }
  const auto metrics = std::make_shared<Metrics>();
  std::shared_ptr<CallbackSender> callback;
  if (auto options = plan_callback(config)) {
    callback = std::make_shared<CallbackSender>(std::move(*options));
    metrics->add_source(std::make_shared<CallbackMetrics>(callback->stats()));
    spdlog::info("results are posted to {}", config.callback_url);
  }
  Generation first;
  if (has_owners(config)) first = first_generation(config, plan, metrics);
  const std::shared_ptr<Cluster> cluster = make_cluster(cluster_options, first);
  if (cluster) metrics->add_source(cluster->metrics());
  ServiceOptions options = plan_service(config, plan.threads);
  options.owners = std::exchange(first.owners, {});
  options.extension = cluster;
  options.callback = {.port = callback, .all_sessions = config.callback_sessions == "all"};
  RecognitionService service(options, metrics);
  // They hold the model.
  options.owners.clear();
  first.network.reset();
  Administration administration(
      read_config, {.config = config, .devices = plan, .model = std::move(first.model)}, service, metrics);
  NetServer server(network, service.gateway(), service.status(), service.uploads(), service.subscriptions());
  metrics->add_source(std::make_shared<NetMetrics>(server.stats()));
  metrics->add_source(std::make_shared<GpuMetrics>(describe_gpus(plan.devices)));
  administration.administer(server);
  server.start();
  service.listening();
  spdlog::info("listening on {}", describe(network, server.address()));
  if (cluster && !cluster->address().empty()) {
    spdlog::info("listening on {} for gateways of the cluster", cluster->address());
  }
  for (const ListenerAddress& listener : server.listeners()) {
    if (listener.is_audiosocket)
      spdlog::info("listening on {} for AudioSocket, for everybody", listener.address);
    if (listener.is_admin) spdlog::info("listening on {} for who runs the server", listener.address);
    if (listener.root_dialect.empty()) continue;
    spdlog::info("listening on {} for the {} dialect at /", listener.address, listener.root_dialect);
  }
  const SignalWatch stops({SIGTERM, SIGINT},
                          [&service](int count) { count == 1 ? service.drain() : service.stop(); });
  const SignalWatch hangups({SIGHUP}, [&administration](int) { administration.reload_now(); });
  service.wait();
  server.stop();
  if (callback) callback->stop(std::chrono::seconds(config.callback_timeout_s));
  if (service.has_hung_owner()) {
    // Its thread would be waited for.
    spdlog::critical("stopped, with an owner that hangs");
    spdlog::shutdown();
    std::_Exit(EXIT_FAILURE);
  }
  spdlog::info("stopped");
}

struct ServeOptions {
  std::string config_file;
  bool print_config = false;
  bool check = false;
  std::vector<std::pair<std::string, std::string>> flags;
};

void add_config_flags(CLI::App& command, ServeOptions& options) {
  const ServerConfig defaults;
  for (const ConfigOption& option : config_options()) {
    const std::string name(option.name);
    const std::string help = fmt::format("{} Accepts {}; default {}. {}", option.help, option.accepted(),
                                         option.to_toml(defaults), when_applied(option.applies));
    const auto note = [&options, name](const std::string& value) { options.flags.emplace_back(name, value); };
    CLI::Option* flag = nullptr;
    if (std::holds_alternative<SwitchField>(option.value)) {
      flag = command.add_flag_function(
          option.flag(), [note](int64_t on) { note(on > 0 ? "true" : "false"); }, help);
    } else if (std::holds_alternative<ListField>(option.value)) {
      flag = command
                 .add_option_function<std::vector<std::string>>(
                     option.flag(),
                     [note](const std::vector<std::string>& values) {
                       note(fmt::format("{}", fmt::join(values, ",")));
                     },
                     help)
                 ->type_name("VALUE")
                 ->allow_extra_args(false);
    } else {
      flag = command.add_option_function<std::string>(option.flag(), note, help)->type_name("VALUE");
    }
    flag->group(name.starts_with("server.")     ? "Server"
                : name.starts_with("admin.")    ? "Server"
                : name.starts_with("callback.") ? "Callback"
                : name.starts_with("cluster.")  ? "Cluster"
                                                : "Engine");
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
      "SIGTERM or SIGINT refuses new streams and lets open ones go on for --grace-s, when they get their "
      "last\n"
      "finals; a second one stops at once. SIGHUP reads the configuration, keys, certificate and model "
      "again: "
      "each\n"
      "option says whether it is reloaded. What is wrong, or does not fit, leaves all as it was.");
  command->add_option("--config", options->config_file, "Configuration file (TOML)")->type_name("FILE");
  command->add_flag("--print-config", options->print_config, "Write the configuration as a file, and exit");
  command->add_flag("--check", options->check, "Say what would run, or what is wrong with it, and exit");
  add_config_flags(*command, *options);
  command->callback([options, &exit_code] {
    exit_code = 0;
    const auto read_config = [options] {
      return load_config({.flags = options->flags,
                          .environment = [](const char* name) -> const char* { return std::getenv(name); },
                          .file = options->config_file});
    };
    if (options->print_config) {
      fmt::print("{}", render_toml(read_config()));
    } else if (options->check) {
      exit_code = check_server(read_config()) ? 0 : 1;
    } else {
      serve(read_config);
    }
  });
}

}  // namespace tutti
