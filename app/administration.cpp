#include "app/administration.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <exception>
#include <future>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "actors/thread_roles.hpp"
#include "app/cluster_plan.hpp"
#include "config/config_changes.hpp"

namespace tutti {
namespace {

/// On a thread that gives way to those who recognize; owners are not to be started from it.
std::optional<Generation> load_in_background(const ConfigChanges& changes, RunningServer& running,
                                             const std::shared_ptr<Metrics>& metrics) {
  return std::async(std::launch::async,
                    [&] {
                      prepare_loading_thread();
                      return load_if_changed(changes.config, running.devices, metrics, running.model,
                                             changes.loads_model());
                    })
      .get();
}

std::string describe(const Handover& handover, const ServedModel& model) {
  return fmt::format("new streams get the model {} (K/V pool: {}), and {} stream{} on with {}",
                     model.description, model.pool.arithmetic, handover.streams_left,
                     handover.streams_left == 1 ? " goes" : "s go", handover.model_before);
}

std::string describe(const NetOptions& network) {
  return network.tls ? fmt::format("certificate ({}) and keys were read again", network.tls->description)
                     : "keys were read again";
}

}  // namespace

Administration::Administration(std::function<ServerConfig()> read_config, RunningServer running,
                               RecognitionService& service, std::shared_ptr<Metrics> metrics)
    : read_config_(std::move(read_config)),
      running_(std::move(running)),
      service_(service),
      metrics_(std::move(metrics)) {}

Administration::~Administration() {
  if (thread_.joinable()) thread_.join();
}

void Administration::administer(NetServer& server) {
  server_ = &server;
  server.use_admin(*this);
}

void Administration::reload(Answer answer) {
  if (is_under_way_.exchange(true)) {
    return answer(fail("reload_under_way", "a reload is under way; ask again when it has ended"));
  }
  if (thread_.joinable()) thread_.join();  // it has released
  try {
    thread_ = std::thread([this, answer] {
      auto done = try_reload();
      release();
      answer(std::move(done));
    });
  } catch (const std::system_error& error) {
    release();
    answer(fail("not_reloaded", error.what()));
  }
}

void Administration::reload_now() {
  while (is_under_way_.exchange(true)) is_under_way_.wait(true);
  (void)try_reload();
  release();
}

void Administration::release() {
  is_under_way_ = false;
  is_under_way_.notify_all();
}

Result<std::string> Administration::try_reload() {
  try {
    std::string done = apply();
    metrics_->reloaded("applied");
    spdlog::info("reloaded: {}", done);
    return done;
  } catch (const std::exception& error) {
    metrics_->reloaded("refused");
    spdlog::error("nothing was reloaded: {}", error.what());
    return fail("not_reloaded", error.what());
  }
}

/// What may fail comes first.
std::string Administration::apply() {
  const ConfigChanges changes = compare_configs(running_.config, read_config_());
  const ServerConfig& config = changes.config;
  const NetOptions network = plan_network(config, running_.devices.threads);
  std::optional<Generation> generation;
  if (has_owners(config)) generation = load_in_background(changes, running_, metrics_);
  if (generation && is_of_cluster(running_.config)) {
    throw SetupError("the model of a process of a cluster changes with a restart (docs/cluster.md)");
  }
  ServiceOptions options = plan_service(config, running_.devices.threads);
  if (generation) options.owners = std::exchange(generation->owners, {});
  const Handover handover = service_.use(options);
  server_->use(network);
  spdlog::set_level(spdlog::level::from_str(config.log_level));

  std::vector<std::string> done{describe(network)};
  if (!changes.at_once.empty()) done.push_back(join_names(changes.at_once) + " changed");
  if (generation) {
    running_.model = std::move(generation->model);
    done.push_back(changes.loads_model() ? join_names(changes.with_model) + " changed"
                                         : "the files of the model changed");
    done.push_back(describe(handover, running_.model));
  }
  if (!changes.at_restart.empty())
    done.push_back(join_names(changes.at_restart) + " will change with a restart");
  running_.config = config;
  return fmt::format("{}", fmt::join(done, "; "));
}

}  // namespace tutti
