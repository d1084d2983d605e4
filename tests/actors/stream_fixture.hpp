#pragma once

#include <gtest/gtest.h>

#include <caf/actor_system.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "actors/event_hub_actor.hpp"
#include "actors/gateway.hpp"
#include "actors/metrics.hpp"
#include "actors/placement.hpp"
#include "tests/actors/fake_owner.hpp"
#include "tests/actors/native_session.hpp"
#include "tests/actors/recording_sink.hpp"
#include "tests/actors/test_system.hpp"

namespace tutti::test {

inline std::vector<std::byte> silence(size_t bytes) { return std::vector<std::byte>(bytes); }

/// Gateway, placement and fake owners, driven message by message.
class ActorTest : public testing::Test {
 protected:
  static constexpr int credit_ms = 2000;

  struct Session {
    std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
    std::unique_ptr<StreamPort> port;
  };

  void start(const std::vector<int>& max_streams) {
    std::vector<PlacedOwner> placed;
    for (const int streams : max_streams) {
      logs.push_back(std::make_shared<OwnerLog>());
      logs.back()->max_streams = streams;
      owners.push_back(system->spawn(fake_owner, logs.back()));
      placed.push_back({.actor = owners.back(), .max_streams = streams, .replace = {}});
      if (replaces) placed.back().replace = [this, streams] { return replacement(streams); };
    }
    status->set_listening();
    placement =
        system->spawn(placement_actor,
                      PlacementSetup{.owners = placed, .rules = rules, .status = status, .metrics = metrics});
    gateway = system->spawn(
        gateway_actor,
        GatewaySetup{.placement = placement, .status = status, .grace = std::chrono::seconds(10)});
    hub = std::make_unique<EventHubBridge>(*system, EventHubLimits{}, metrics);
    bridge = std::make_unique<GatewayBridge>(*system, gateway, *hub, metrics, credit_ms, EndpointRules{});
  }

  void TearDown() override {
    bridge.reset();
    if (gateway) caf::anon_send(gateway, stop_atom_v);
    system.run();
    if (hub) caf::anon_send(hub->actor(), stop_atom_v);
    caf::anon_send_exit(placement, caf::exit_reason::user_shutdown);
    for (const GpuOwner& owner : owners) caf::anon_send_exit(owner, caf::exit_reason::user_shutdown);
    system.run();
    for (const auto& log : logs) {
      log->streams.clear();
      log->pings.clear();
      log->admissions.clear();
    }
  }

  GpuOwner replacement(int max_streams) {
    logs.push_back(std::make_shared<OwnerLog>());
    logs.back()->max_streams = max_streams;
    owners.push_back(system->spawn(fake_owner, logs.back()));
    return owners.back();
  }

  /// Another owner, while the others serve. Its log is the last.
  void join(PlacedOwner owner) {
    owner.actor = replacement(owner.max_streams);
    logs.back()->model_identity = owner.model_identity;
    caf::anon_send(placement, join_atom_v, owner);
    system.run();
  }
  /// One takes over, perhaps of another model. Its log is the last.
  void swap(PlacedOwner owner) {
    owner.actor = replacement(owner.max_streams);
    logs.back()->model_identity = owner.model_identity;
    caf::anon_send(placement, swap_atom_v, NewOwners{{owner}});
    system.run();
  }
  void retire_all() {
    caf::anon_send(placement, swap_atom_v, NewOwners{});
    system.run();
  }

  void kill(size_t owner) {
    caf::anon_send_exit(owners[owner], caf::exit_reason::kill);
    system.run();
  }

  Session open(const std::string& query = "") {
    Session session;
    session.port = bridge->open_stream(native_session(query), session.sink);
    system.run();
    return session;
  }

  /// The stream that owner 0 admitted as its `slot`-th.
  StreamActor stream(size_t slot = 0) { return logs[0]->streams.at(slot); }

  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
  std::shared_ptr<ServerStatus> status = std::make_shared<ServerStatus>(*metrics);
  PlacementRules rules;
  bool replaces = false;  // owners that died
  TestSystem system;
  std::vector<std::shared_ptr<OwnerLog>> logs;
  std::vector<GpuOwner> owners;
  PlacementActor placement;
  GatewayActor gateway;
  std::unique_ptr<EventHubBridge> hub;
  std::unique_ptr<GatewayBridge> bridge;
};

}  // namespace tutti::test
