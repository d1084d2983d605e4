#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "actors/service.hpp"
#include "app/server_plan.hpp"
#include "net/server.hpp"

namespace tutti {

/// What a server was started with.
struct RunningServer {
  ServerConfig config;
  DevicePlan devices;
  ServedModel model;
};

/// Has done to a running server what is asked for at its admin port and by SIGHUP. Outlives the NetServer,
/// which it gets to know after it.
///
/// A reload reads the configuration, and whatever files it names, anew. All of it that can change while the
/// server runs is put in force, with another model where there is one, or nothing is, when any of it is wrong
/// or does not fit; what needs a restart is named. Loading a model takes its time: a reload has a thread, and
/// there is one at a time.
class Administration final : public AdminPort {
 public:
  /// `read_config` throws what load_config throws. The service outlives it.
  Administration(std::function<ServerConfig()> read_config, RunningServer running,
                 RecognitionService& service, std::shared_ptr<Metrics> metrics);
  Administration(const Administration&) = delete;
  Administration& operator=(const Administration&) = delete;
  /// Waits for a reload that is under way.
  ~Administration() override;

  /// Before the server starts.
  void administer(NetServer& server);

  void drain() override { service_.drain(); }
  /// In a thread of its own. Fails with "reload_under_way" when one is, or "not_reloaded".
  void reload(Answer answer) override;
  /// In the calling thread, after one that is under way.
  void reload_now();

 private:
  Result<std::string> try_reload();
  [[nodiscard]] std::string apply();
  void release();

  std::function<ServerConfig()> read_config_;
  RunningServer running_;  // of the reload that is under way, as all below but the last
  RecognitionService& service_;
  std::shared_ptr<Metrics> metrics_;
  NetServer* server_ = nullptr;
  std::thread thread_;  // of the last that has one
  std::atomic<bool> is_under_way_{false};
};

}  // namespace tutti
