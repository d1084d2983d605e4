#include "cluster/gateway_link.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <caf/send.hpp>
#include <utility>

#include "actors/log_exceptions.hpp"
#include "actors/server_status.hpp"
#include "cluster/frames.hpp"

namespace tutti {
namespace {

using Self = GatewayLink::stateful_pointer<GatewayLinkState>;
using Stream = GatewayLinkState::Stream;
using Owner = GatewayLinkState::Owner;

/// With its lease.
void forget(GatewayLinkState& state, uint64_t number) {
  const auto at = state.streams.find(number);
  if (at == state.streams.end()) return;
  state.numbers.erase(at->second.tag);
  state.streams.erase(at);
}

void on_admission(Self self, const FramePeer& gateway, uint64_t number, const Admission& admission) {
  const auto at = self->state.streams.find(number);
  if (at == self->state.streams.end()) return;  // released; so is the lease, with the message
  if (admission) {
    at->second.context.emplace(std::move(**admission));
    return send_frame(gateway, wire::Admitted{.stream = number, .refusal = std::nullopt});
  }
  forget(self->state, number);
  send_frame(gateway, wire::Admitted{.stream = number, .refusal = admission.error()});
}

void lose_owner(Self self, const FramePeer& gateway, uint32_t number, const std::string& reason) {
  GatewayLinkState& state = self->state;
  send_frame(gateway, wire::OwnerLost{.owner = number, .reason = reason});
  state.owners.erase(number);
  std::erase_if(state.streams, [&](const auto& entry) {
    if (entry.second.owner != number) return false;
    state.numbers.erase(entry.second.tag);
    return true;
  });
}

/// What a gateway says, one function a frame.
struct FromGateway {
  Self self;
  const GatewayLinkSetup& setup;

  void operator()(const wire::Admit& admit) const {
    GatewayLinkState& state = self->state;
    const auto owner = state.owners.find(admit.owner);
    if (owner == state.owners.end()) return refuse(admit.stream, Room::no_device);
    if (std::ssize(state.streams) >= places()) return refuse(admit.stream, Room::full);
    StreamOptions options = admit.options;
    options.tag = ++state.last_tag;
    const bool is_new =
        state.streams
            .emplace(admit.stream, Stream{.owner = admit.owner, .tag = options.tag, .context = std::nullopt})
            .second;
    if (!is_new) return fail_link("it used the number of a stream again");
    state.numbers.emplace(options.tag, admit.stream);
    const auto answer = [self = self, gateway = setup.gateway, number = admit.stream](
                            const Admission& admission) { on_admission(self, gateway, number, admission); };
    self->request(owner->second.shared.actor, caf::infinite, admit_atom_v, options,
                  StreamActor{GatewayLink{self}})
        .then(answer, [answer](const caf::error&) { answer(tl::unexpected(refusal_of(Room::no_device))); });
  }
  void operator()(wire::Restore& restore) const {
    const StreamContext* const context = find(restore.stream);
    if (context == nullptr) return;
    auto snapshot = std::make_shared<StreamSnapshot>(*restore.snapshot);
    const auto owner = self->state.owners.find(self->state.streams.at(restore.stream).owner);
    if (snapshot->past && owner != self->state.owners.end()) {
      snapshot->past->model = owner->second.shared.model;
    }
    context->restore(std::move(snapshot));
  }
  void operator()(wire::Feed& feed) const {
    if (const auto* context = find(feed.stream)) {
      context->feed({make_buffer(std::move(feed.samples)), feed.arrival});
    }
  }
  void operator()(const wire::Finalize& command) const {
    if (const auto* context = find(command.stream)) context->finalize(command.arrival);
  }
  void operator()(const wire::Finish& command) const {
    if (const auto* context = find(command.stream)) context->finish(command.arrival);
  }
  void operator()(const wire::Reset& command) const {
    if (const auto* context = find(command.stream)) context->reset();
  }
  void operator()(const wire::Release& command) const { forget(self->state, command.stream); }
  /// Each owner answers for itself, when it can.
  void operator()(const wire::Ping& ping) const {
    for (auto& [number, owner] : self->state.owners) {
      if (std::exchange(owner.pinged, true)) continue;
      self->request(owner.shared.actor, caf::infinite, ping_atom_v)
          .then(
              [self = self, gateway = setup.gateway, ping, number = number](const OwnerHealth& health) {
                const auto at = self->state.owners.find(number);
                if (at == self->state.owners.end()) return;
                at->second.pinged = false;
                send_frame(
                    gateway,
                    wire::Pong{
                        .number = ping.number,
                        .owners = {{.owner = number, .overloaded = health.overloaded, .free = health.free}}});
              },
              [](const caf::error&) {});  // it is gone, as a down message says
    }
  }
  template <class Frame>
  void operator()(const Frame&) const {
    fail_link("it sent what only engines send, or joined twice");
  }

  void fail_link(const std::string& reason) const {
    spdlog::error("cluster: gateway {}: {}; its {} streams end here", setup.name, reason,
                  self->state.streams.size());
    self->quit(caf::exit_reason::user_shutdown);
  }

 private:
  [[nodiscard]] int64_t places() const {
    int64_t places = 0;
    for (const auto& [number, owner] : self->state.owners) places += owner.shared.info.max_streams;
    return places;
  }

  void refuse(uint64_t stream, Room room) const {
    send_frame(setup.gateway, wire::Admitted{.stream = stream, .refusal = refusal_of(room)});
  }

  /// Null, and counted, for a stream that has ended or never was.
  [[nodiscard]] const StreamContext* find(uint64_t stream) const {
    const auto at = self->state.streams.find(stream);
    if (at != self->state.streams.end() && at->second.context) return &*at->second.context;
    setup.metrics->frame_ignored();
    return nullptr;
  }
};

void on_updates(Self self, const FramePeer& gateway, const StreamUpdates& message) {
  const auto at = self->state.numbers.find(message.tag);
  if (at == self->state.numbers.end()) return;
  const uint64_t number = at->second;
  const Update::Kind last = message.updates->items.back().kind;
  send_frame(gateway, wire::Updates{
                          .stream = number, .updates = message.updates->items, .snapshot = message.snapshot});
  if (last == Update::Kind::done || last == Update::Kind::error) forget(self->state, number);
}

}  // namespace

GatewayLinkState::~GatewayLinkState() {
  if (metrics) metrics->gateway_left();
}

GatewayLink::behavior_type gateway_link(Self self, const GatewayLinkSetup& setup) {
  log_exceptions(self, "the link to gateway " + setup.name);
  setup.metrics->gateway_joined();
  self->state.metrics = setup.metrics;
  self->monitor(setup.host);
  self->monitor(setup.gateway);
  for (const auto& [number, owner] : setup.owners) {
    self->state.owners.emplace(number, Owner{.shared = owner});
    self->monitor(owner.actor);
  }
  self->set_down_handler([self, setup](const caf::down_msg& down) {
    if (down.source == setup.host.address()) return self->quit();
    if (down.source == setup.gateway.address()) {
      spdlog::info("cluster: gateway {} is gone, with {} streams", setup.name, self->state.streams.size());
      return self->quit();
    }
    const auto owner = std::ranges::find_if(self->state.owners, [&](const auto& entry) {
      return entry.second.shared.actor.address() == down.source;
    });
    if (owner != self->state.owners.end()) lose_owner(self, setup.gateway, owner->first, "it died");
  });
  // As a message of this actor's: the gateway speaks to whoever sent it.
  self->send(setup.gateway, encode_frame(setup.joined));

  return {
      // A live session's: here they come in frames.
      [](audio_atom, const AudioBytes&) {},
      [](text_atom, const TextMessage&) {},
      [](closed_atom) {},
      [](fault_atom, const Error&) {},
      [self, gateway = setup.gateway](update_atom, const StreamUpdates& updates) {
        on_updates(self, gateway, updates);
      },
      [](lost_atom, const caf::actor_addr&) {},
      [](idle_atom) {},
      [self, gateway = setup.gateway](drain_atom) {
        while (!self->state.owners.empty()) {
          lose_owner(self, gateway, self->state.owners.begin()->first, "the engine is stopping");
        }
      },
      [self](stop_atom) { self->quit(); },
      [self, setup](const FrameBytes& bytes) {
        const FromGateway from_gateway{self, setup};
        Result<wire::Frame> frame = decode_frame(bytes);
        if (!frame) {
          setup.metrics->frame_broken();
          return from_gateway.fail_link(frame.error().message);
        }
        std::visit(from_gateway, *frame);
      },
      [self, gateway = setup.gateway](join_atom, uint32_t number, const SharedOwner& owner) {
        self->monitor(owner.actor);
        self->state.owners.emplace(number, Owner{.shared = owner});
        send_frame(gateway, wire::OwnerStarted{
                                .owner = {.owner = number, .identity = owner.identity, .info = owner.info}});
      },
  };
}

}  // namespace tutti
