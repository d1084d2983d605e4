#include "cluster/engine_host.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include <caf/send.hpp>
#include <utility>

#include "actors/log_exceptions.hpp"
#include "cluster/frames.hpp"
#include "cluster/gateway_link.hpp"

namespace tutti {
namespace {

using Self = EngineHost::stateful_pointer<EngineHostState>;

/// Why a gateway cannot join; empty when it can.
std::string objection(const EngineHostState& state, const EngineHostSetup& setup, const wire::Join& join) {
  if (join.protocol != wire::protocol_version) {
    return fmt::format("it speaks version {} of the protocol, and the engine {}", join.protocol,
                       wire::protocol_version);
  }
  if (join.version != setup.version) {
    return fmt::format("it is tutti {}, and the engine {}", join.version, setup.version);
  }
  if (state.draining) return "the engine is stopping";
  if (state.links.size() >= max_gateways) return fmt::format("the engine has {} gateways", max_gateways);
  if (state.owners.empty()) return "the engine has no owner yet";
  if (!join.identity) return {};
  std::string unlike;
  for (const auto& [number, owner] : state.owners) {
    unlike = difference(*join.identity, owner.identity);
    if (unlike.empty()) break;
  }
  return unlike;
}

void accept(Self self, const EngineHostSetup& setup, const wire::Join& join, const FramePeer& gateway) {
  EngineHostState& state = self->state;
  wire::Joined joined{.version = setup.version, .engine = setup.name, .device = setup.device, .owners = {}};
  for (const auto& [number, owner] : state.owners) {
    joined.owners.push_back({.owner = number, .identity = owner.identity, .info = owner.info});
  }
  spdlog::info("cluster: gateway {} joined", join.gateway);
  const GatewayLink link = self->spawn(gateway_link, GatewayLinkSetup{.host = EngineHost{self},
                                                                      .gateway = gateway,
                                                                      .name = join.gateway,
                                                                      .joined = std::move(joined),
                                                                      .owners = state.owners,
                                                                      .metrics = setup.metrics});
  self->monitor(link);
  state.links.emplace(link.address(), link);
}

void on_frame(Self self, const EngineHostSetup& setup, const FrameBytes& bytes) {
  const auto gateway = caf::actor_cast<FramePeer>(self->current_sender());
  const Result<wire::Frame> frame = decode_frame(bytes);
  const auto* const join = frame ? std::get_if<wire::Join>(&*frame) : nullptr;
  if (!gateway || join == nullptr) {
    setup.metrics->frame_broken();
    return spdlog::warn("cluster: ignored what is not a gateway's: {}",
                        frame ? "a frame out of turn" : frame.error().message);
  }
  const std::string reason = objection(self->state, setup, *join);
  if (reason.empty()) return accept(self, setup, *join, gateway);
  spdlog::warn("cluster: gateway {} was refused: {}", join->gateway, reason);
  setup.metrics->gateway_refused();
  send_frame(gateway, wire::Refused{.reason = reason});
}

}  // namespace

EngineHost::behavior_type engine_host(Self self, const EngineHostSetup& setup) {
  log_exceptions(self, "the engine's host");
  self->set_down_handler([self](const caf::down_msg& down) {
    self->state.links.erase(down.source);
    std::erase_if(self->state.owners,
                  [&](const auto& entry) { return entry.second.actor.address() == down.source; });
  });

  return {
      [self, setup](const FrameBytes& bytes) { on_frame(self, setup, bytes); },
      [self](join_atom, const SharedOwner& owner) {
        const uint32_t number = ++self->state.last_owner;
        self->monitor(owner.actor);
        self->state.owners.emplace(number, owner);
        for (const auto& [address, link] : self->state.links) {
          caf::anon_send(link, join_atom_v, number, owner);
        }
      },
      [self](drain_atom) {
        self->state.draining = true;
        for (const auto& [address, link] : self->state.links) caf::anon_send(link, drain_atom_v);
      },
  };
}

}  // namespace tutti
