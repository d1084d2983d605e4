#include <fmt/ranges.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/metrics.hpp"
#include "actors/service.hpp"
#include "app/bundled_model.hpp"
#include "app/commands.hpp"
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

void start_log(const std::string& level) {
  auto log = spdlog::stderr_color_mt("tutti");
  log->set_formatter(log_formatter());
  log->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(log));
}

/// Also says what is worth a look before the first client comes.
std::shared_ptr<const ConformerCtc> loaded_model(const ServerConfig& config, const DevicePlan& plan) {
  if (!plan.note.empty()) spdlog::info("{}", plan.note);
  auto [model, device] = open_model(config, plan.devices.front());
  spdlog::info("model {} from {}", describe(*model), model_directory(config.model).string());
  if (!model->unused_weights().empty()) {
    spdlog::info("{} tensors of the checkpoint are not used: {}", model->unused_weights().size(),
                 fmt::join(model->unused_weights(), " "));
  }
  spdlog::info("device {}", device);
  spdlog::info("{}", describe(plan, config.engine));
  return model;
}

/// What is asked for at the admin port. Outlives the server, which it gets to know after it.
class Administration final : public AdminPort {
 public:
  Administration(const ServerConfig& config, RecognitionService& service)
      : config_(config), service_(service) {}

  /// Before the server starts.
  void administer(NetServer& server) {
    server_ = &server;
    server.use_admin(*this);
  }

  void drain() override { service_.drain(); }

  /// Certificate and keys: all or none.
  void reload(Answer answer) override {
    try {
      Credentials credentials = plan_credentials(config_);
      const std::optional<TlsIdentity> certificate = plan_certificate(config_);
      if (certificate) server_->use_certificate(*certificate);
      server_->use_credentials(std::move(credentials));
      const std::string done =
          certificate ? fmt::format("certificate ({}) and keys were read again", certificate->description)
                      : "keys were read again";
      spdlog::info("{}", done);
      answer(done);
    } catch (const std::exception& error) {
      spdlog::error("nothing was reloaded: {}", error.what());
      answer(fail("not_reloaded", error.what()));
    }
  }

 private:
  const ServerConfig& config_;
  RecognitionService& service_;
  NetServer* server_ = nullptr;
};

/// The order of the end: the gateway drains, then the sockets close, then the actors go.
void serve(const ServerConfig& config) {
  block_signals({SIGTERM, SIGINT, SIGHUP});
  start_log(config.log_level);
  cpu::use_level(config.engine.cpu_level);
  const DevicePlan plan = plan_devices(config.engine);
  // Before the model, which takes longer: most mistakes are here.
  const NetOptions network = plan_network(config, plan.threads);
  if (network.tls && !network.tls->warning.empty()) spdlog::warn("{}", network.tls->warning);
  const auto metrics = std::make_shared<Metrics>();
  std::shared_ptr<CallbackSender> callback;
  if (auto options = plan_callback(config)) {
    callback = std::make_shared<CallbackSender>(std::move(*options));
    metrics->add_source(std::make_shared<CallbackMetrics>(callback->stats()));
    spdlog::info("results are posted to {}", config.callback_url);
  }
  const std::shared_ptr<const ConformerCtc> model = loaded_model(config, plan);
  EngineConfig engine = config.engine;
  const PoolPlan pool = plan_memory(plan, model, engine);
  spdlog::info("K/V pool: {}", pool.arithmetic);
  engine.max_num_blocks = pool.num_blocks;
  RecognitionService service(
      {.owners = plan_owners(plan, model, config, engine, metrics),
       .credit_ms = config.credit_ms,
       .endpoint = {.silence_after_speech_ms = config.engine.endpoint_silence_ms,
                    .long_silence_ms = config.engine.endpoint_long_silence_ms,
                    .max_segment_ms = config.engine.max_segment_ms},
       .grace = std::chrono::seconds(config.grace_s),
       .placement = {.max_wait = std::chrono::milliseconds(config.max_wait_ms),
                     .max_waiting = static_cast<size_t>(config.max_waiting),
                     .owner_timeout = std::chrono::seconds(config.owner_timeout_s)},
       .uploads = {.max_uploads = config.max_uploads, .max_seconds = config.max_upload_seconds},
       .subscribers = {.max_subscribers = config.max_subscribers},
       .callback = {.port = callback, .all_sessions = config.callback_sessions == "all"},
       .worker_threads = plan.threads.workers},
      metrics);
  Administration administration(config, service);
  NetServer server(network, service.gateway(), service.status(), service.uploads(), service.subscriptions());
  metrics->add_source(std::make_shared<NetMetrics>(server.stats()));
  administration.administer(server);
  server.start();
  service.listening();
  spdlog::info("listening on {}", describe(network, server.address()));
  for (const ListenerAddress& listener : server.listeners()) {
    if (listener.is_audiosocket)
      spdlog::info("listening on {} for AudioSocket, for everybody", listener.address);
    if (listener.is_admin) spdlog::info("listening on {} for who runs the server", listener.address);
    if (listener.root_dialect.empty()) continue;
    spdlog::info("listening on {} for the {} dialect at /", listener.address, listener.root_dialect);
  }
  const SignalWatch stops({SIGTERM, SIGINT},
                          [&service](int count) { count == 1 ? service.drain() : service.stop(); });
  const SignalWatch hangups({SIGHUP}, [&administration](int) { administration.reload([](const auto&) {}); });
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
    const std::string help =
        fmt::format("{} Accepts {}; default {}.", option.help, option.accepted(), option.to_toml(defaults));
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
      "finals; a second one stops at once.");
  command->add_option("--config", options->config_file, "Configuration file (TOML)")->type_name("FILE");
  command->add_flag("--print-config", options->print_config, "Write the configuration as a file, and exit");
  command->add_flag("--check", options->check, "Say what would run, or what is wrong with it, and exit");
  add_config_flags(*command, *options);
  command->callback([options, &exit_code] {
    exit_code = 0;
    const ServerConfig config =
        load_config({.flags = options->flags,
                     .environment = [](const char* name) -> const char* { return std::getenv(name); },
                     .file = options->config_file});
    if (options->print_config) {
      fmt::print("{}", render_toml(config));
    } else if (options->check) {
      exit_code = check_server(config) ? 0 : 1;
    } else {
      serve(config);
    }
  });
}

}  // namespace tutti
