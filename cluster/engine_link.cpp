#include "cluster/engine_link.hpp"

#include <spdlog/spdlog.h>

#include <caf/send.hpp>
#include <utility>

#include "actors/log_exceptions.hpp"
#include "cluster/frames.hpp"

namespace tutti {
namespace {

using Self = EngineLink::stateful_pointer<EngineLinkState>;

// All owners are pinged at once, and one frame asks for all.
constexpr auto ping_pause = std::chrono::milliseconds(50);

/// What an engine says, one function a frame.
struct FromEngine {
  Self self;
  const EngineLinkSetup& setup;

  void operator()(wire::Joined& joined) const {
    if (self->state.engine) return fail_link("it joined twice");
    self->state.engine = caf::actor_cast<FramePeer>(self->current_sender());
    self->monitor(self->state.engine);
    caf::anon_send(setup.directory, join_atom_v, setup.address, self->state.engine, std::move(joined));
  }
  void operator()(wire::Refused& refused) const { fail_link("it refuses this gateway: " + refused.reason); }
  void operator()(wire::OwnerStarted& started) const {
    caf::anon_send(setup.directory, start_atom_v, setup.address, std::move(started.owner));
  }
  void operator()(wire::OwnerLost& lost) const {
    spdlog::warn("cluster: engine {} lost an owner: {}", setup.address, lost.reason);
    caf::anon_send(setup.directory, lost_atom_v, setup.address, lost.owner);
    const auto at = self->state.owners.find(lost.owner);
    if (at == self->state.owners.end()) return;
    caf::anon_send_exit(at->second, caf::exit_reason::remote_link_unreachable);
    self->state.owners.erase(at);
  }
  void operator()(wire::Admitted& admitted) const {
    pass_on(owner_of_stream(admitted.stream), std::move(admitted));
  }
  void operator()(wire::Updates& updates) const {
    pass_on(owner_of_stream(updates.stream), std::move(updates));
  }
  void operator()(wire::Pong& pong) const {
    for (const wire::OwnerState& owner : pong.owners) pass_on(owner.owner, owner);
  }
  template <class Frame>
  void operator()(Frame&) const {
    fail_link("it sent what only gateways send");
  }

  void fail_link(std::string reason) const {
    caf::anon_send(setup.directory, fault_atom_v, setup.address, Error{"engine_fault", std::move(reason)});
    self->quit(caf::exit_reason::user_shutdown);
  }

 private:
  template <class Frame>
  void pass_on(uint32_t owner, Frame frame) const {
    const auto at = self->state.owners.find(owner);
    if (at != self->state.owners.end()) caf::anon_send(at->second, std::move(frame));
  }
};

void ping(Self self) {
  if (!self->state.engine || std::exchange(self->state.pinged, true)) return;
  send_frame(self->state.engine, wire::Ping{.number = ++self->state.pings});
  self->delayed_send(self, ping_pause, wake_atom_v);
}

}  // namespace

EngineLink::behavior_type engine_link(Self self, const EngineLinkSetup& setup) {
  log_exceptions(self, "the link to engine " + setup.address);
  self->set_down_handler([self, setup](const caf::down_msg& down) {
    if (down.source == setup.directory.address()) return self->quit();
    FromEngine{self, setup}.fail_link("the connection is lost");
  });
  self->monitor(setup.directory);
  self->monitor(setup.host);
  // As a message of this actor's: the engine answers whoever sent it.
  self->send(setup.host, encode_frame(setup.join));
  self->delayed_send(self, join_timeout, idle_atom_v);

  return {
      [self, setup](const FrameBytes& bytes) {
        const FromEngine from_engine{self, setup};
        Result<wire::Frame> frame = decode_frame(bytes, setup.model);
        if (!frame) return from_engine.fail_link(frame.error().message);
        std::visit(from_engine, *frame);
      },
      [self](join_atom, uint32_t owner, const RemoteOwner& actor) { self->state.owners[owner] = actor; },
      [self](ping_atom) { ping(self); },
      [self](wake_atom) { self->state.pinged = false; },
      [self, setup](idle_atom) {
        if (!self->state.engine) FromEngine{self, setup}.fail_link("it does not answer");
      },
  };
}

}  // namespace tutti
