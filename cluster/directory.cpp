#include "cluster/directory.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include <caf/send.hpp>
#include <ctime>
#include <utility>

#include "actors/credit.hpp"
#include "actors/log_exceptions.hpp"
#include "cluster/engine_link.hpp"
#include "cluster/remote_owner.hpp"

namespace tutti {
namespace {

using Self = Directory::stateful_pointer<DirectoryState>;
using Engine = DirectoryState::Engine;
using Owner = DirectoryState::Owner;

constexpr auto watch_interval = std::chrono::milliseconds(250);

/// What the parts of the actor share.
struct Engines {
  Self self;
  const DirectorySetup& setup;  // as long as the actor

  [[nodiscard]] DirectoryState& state() const { return self->state; }
  [[nodiscard]] Engine* find(const std::string& address) const {
    const auto at = state().engines.find(address);
    return at == state().engines.end() ? nullptr : &at->second;
  }

  // Who is there.

  void watch() const {
    const auto now = self->clock().now();
    for (auto& [text, name] : state().names) {
      if (name.resolving || now < name.next_try) continue;
      name.resolving = true;
      setup.resolve(Directory{self}, text);
    }
    try_engines();
    self->delayed_send(self, watch_interval, watch_atom_v);
  }

  void on_resolved(const Resolved& resolved) const {
    DirectoryState::Name& name = state().names[resolved.name];
    name.resolving = false;
    name.next_try = self->clock().now() + resolve_interval;
    if (!resolved.addresses) {
      const std::string& reason = resolved.addresses.error().message;
      if (std::exchange(name.trouble, reason) != reason) {
        spdlog::warn("cluster: {} has no address: {}; it is looked up again and again", resolved.name,
                     reason);
      }
      return;
    }
    name.trouble.clear();
    name.addresses = *resolved.addresses;
    for (const std::string& address : name.addresses) state().engines.try_emplace(address);
    forget_unlisted();
    try_engines();
  }

  void on_probed(const Probed& probed) const {
    Engine* const engine = find(probed.address);
    if (engine == nullptr) return;
    if (!probed.outcome) return try_later(probed.address, probed.outcome.error().message);
    setup.connect(self, probed.address,
                  [*this, address = probed.address](const FramePeer& host, const std::string& reason) {
                    host ? join(address, host) : try_later(address, reason);
                  });
  }

  void join(const std::string& address, const FramePeer& host) const {
    Engine* const engine = find(address);
    if (engine == nullptr) return;
    if (const std::string other = other_address_of(host, address); !other.empty()) {
      return try_later(address, "it is the engine at " + other);
    }
    engine->host = host;
    EngineLinkSetup link{
        .host = host, .address = address, .model = setup.model, .directory = Directory{self}};
    link.join.version = setup.version;
    link.join.gateway = setup.name;
    link.join.identity = state().identity;
    engine->link = self->spawn(engine_link, std::move(link));
    self->monitor(engine->link);
  }

  // What they say.

  void on_joined(const std::string& address, const FramePeer& gateway_link,
                 const wire::Joined& joined) const {
    Engine* const engine = find(address);
    if (engine == nullptr) return;
    if (joined.protocol != wire::protocol_version || joined.version != setup.version) {
      return on_fault(address,
                      fmt::format("it is tutti {}, and this gateway {}", joined.version, setup.version));
    }
    engine->gateway_link = gateway_link;
    engine->trying = false;
    engine->joined = true;
    engine->failures = 0;
    engine->trouble.clear();
    setup.metrics->engine_joined();
    spdlog::info("cluster: engine {} joined: {}, {}, {} owners", address, joined.engine, joined.device,
                 joined.owners.size());
    for (const wire::OwnerDescription& owner : joined.owners) add_owner(address, *engine, owner);
  }

  void add_owner(const std::string& address, Engine& engine,
                 const wire::OwnerDescription& description) const {
    Owner& owner =
        engine.owners[description.owner] = {.description = description, .actor = {}, .objection = {}};
    use(address, engine, owner);
    if (!owner.objection.empty()) {
      setup.metrics->engine_refused();
      spdlog::warn("cluster: owner {} of engine {} is not used: {}", description.owner, address,
                   owner.objection);
    }
  }

  void on_owner_started(const std::string& address, const wire::OwnerDescription& owner) const {
    if (Engine* const engine = find(address); engine != nullptr && engine->joined) {
      add_owner(address, *engine, owner);
    }
  }

  void lose_owner(const std::string& address, uint32_t number) const {
    Engine* const engine = find(address);
    if (engine == nullptr || engine->owners.erase(number) == 0) return;
    count_places(address, *engine);
    forget_identity_if_unused();
  }

  void on_fault(const std::string& address, const std::string& reason) const {
    Engine* const engine = find(address);
    if (engine == nullptr || !engine->link) return;
    self->demonitor(engine->link.address());
    caf::anon_send_exit(engine->link, caf::exit_reason::user_shutdown);
    engine->link = nullptr;
    engine->gateway_link = nullptr;
    if (engine->joined) {
      setup.metrics->engine_lost();
      spdlog::error("cluster: engine {} is lost: {}", address, reason);
      engine->joined = false;
      engine->failures = 0;
      engine->trouble = reason;
    } else {
      setup.metrics->engine_refused();
    }
    engine->owners.clear();
    count_places(address, *engine);
    try_later(address, reason);
    forget_identity_if_unused();
    forget_unlisted();
  }

  void on_down(const caf::down_msg& down) const {
    for (auto& [address, engine] : state().engines) {
      if (engine.link && engine.link.address() == down.source) return on_fault(address, "its link failed");
    }
  }

 private:
  void try_engines() const {
    const auto now = self->clock().now();
    for (auto& [address, engine] : state().engines) {
      if (engine.trying || engine.joined || now < engine.next_try) continue;
      engine.trying = true;
      setup.probe(Directory{self}, address);
    }
  }

  /// At which an engine is joined already: it may have several.
  [[nodiscard]] std::string other_address_of(const FramePeer& host, const std::string& address) const {
    for (const auto& [other, engine] : state().engines) {
      if (other != address && engine.link && engine.host == host) return other;
    }
    return {};
  }

  /// Of addresses that no name has any more, those that nobody is at.
  void forget_unlisted() const {
    std::erase_if(state().engines, [&](const auto& entry) {
      if (entry.second.trying || entry.second.joined) return false;
      return std::ranges::none_of(state().names, [&](const auto& name) {
        const std::vector<std::string>& addresses = name.second.addresses;
        return std::ranges::find(addresses, entry.first) != addresses.end();
      });
    });
  }

  void try_later(const std::string& address, const std::string& reason) const {
    Engine* const engine = find(address);
    if (engine == nullptr) return;
    engine->trying = false;
    const auto pause =
        std::min<std::chrono::milliseconds>(longest_pause, shortest_pause * (1 << engine->failures));
    engine->failures = std::min(engine->failures + 1, 8);
    // Two that try each other at once would never meet.
    const std::chrono::milliseconds jitter(state().random() % static_cast<unsigned>(shortest_pause.count()));
    engine->next_try = self->clock().now() + pause + jitter;
    if (std::exchange(engine->trouble, reason) != reason) {
      spdlog::warn("cluster: engine {} is not used: {}; it is tried again and again", address, reason);
    }
  }

  [[nodiscard]] std::string objection(const wire::OwnerDescription& owner) const {
    if (state().identity) {
      if (std::string unlike = difference(*state().identity, owner.identity); !unlike.empty()) return unlike;
    }
    try {
      check_credit(setup.credit_ms, owner.info.chunk_ms, owner.info.max_buffered_ms);
    } catch (const SetupError& error) {
      return error.what();
    }
    return {};
  }

  void use(const std::string& address, Engine& engine, Owner& owner) const {
    owner.objection = objection(owner.description);
    if (!owner.objection.empty()) return;
    if (!state().identity) {
      state().identity = owner.description.identity;
      setup.status->set_model(
          {.name = owner.description.info.model, .loaded_at = static_cast<int64_t>(std::time(nullptr))});
    }
    RecognizerInfo info = owner.description.info;
    info.model_identity = to_string(owner.description.identity);
    owner.actor = self->spawn(remote_owner, RemoteOwnerSetup{.link = engine.link,
                                                             .engine = engine.gateway_link,
                                                             .owner = owner.description.owner,
                                                             .info = info});
    caf::anon_send(engine.link, join_atom_v, owner.description.owner, owner.actor);
    caf::anon_send(setup.placement, join_atom_v,
                   PlacedOwner{.actor = GpuOwner{owner.actor},
                               .max_streams = info.max_streams,
                               .model_identity = info.model_identity,
                               .is_remote = true,
                               .is_shared = true});
    count_places(address, engine);
  }

  void count_places(const std::string& address, const Engine& engine) const {
    int places = 0;
    for (const auto& [number, owner] : engine.owners) {
      places += owner.actor ? owner.description.info.max_streams : 0;
    }
    setup.metrics->engine_places(address, places);
  }

  /// With the last owner goes the model that all had to have; others may have been waiting.
  void forget_identity_if_unused() const {
    if (setup.identity || !state().identity) return;
    const auto is_used = [](const auto& entry) {
      return std::ranges::any_of(entry.second.owners,
                                 [](const auto& owner) { return static_cast<bool>(owner.second.actor); });
    };
    if (std::ranges::any_of(state().engines, is_used)) return;
    state().identity.reset();
    for (auto& [address, engine] : state().engines) {
      for (auto& [number, owner] : engine.owners) use(address, engine, owner);
    }
  }
};

}  // namespace

Directory::behavior_type directory(Self self, const DirectorySetup& given) {
  log_exceptions(self, "the directory of engines");
  const auto setup = std::make_shared<const DirectorySetup>(given);
  self->state.identity = setup->identity;
  for (const std::string& name : setup->engines) self->state.names[name];
  const auto engines = [self, setup] { return Engines{self, *setup}; };
  self->set_down_handler([engines](const caf::down_msg& down) { engines().on_down(down); });
  engines().watch();

  return {
      [engines](watch_atom) { engines().watch(); },
      [engines](const Resolved& resolved) { engines().on_resolved(resolved); },
      [engines](const Probed& probed) { engines().on_probed(probed); },
      [engines](join_atom, const std::string& address, const FramePeer& gateway_link,
                const wire::Joined& joined) { engines().on_joined(address, gateway_link, joined); },
      [engines](start_atom, const std::string& address, const wire::OwnerDescription& owner) {
        engines().on_owner_started(address, owner);
      },
      [engines](lost_atom, const std::string& address, uint32_t owner) {
        engines().lose_owner(address, owner);
      },
      [engines](fault_atom, const std::string& address, const Error& error) {
        engines().on_fault(address, error.message);
      },
  };
}

}  // namespace tutti
