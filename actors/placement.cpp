#include "actors/placement.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "actors/log_exceptions.hpp"

namespace tutti {
namespace {

using Self = PlacementActor::stateful_pointer<PlacementState>;
using Owner = PlacementState::Owner;

/// A placement under way.
struct Attempt {
  StreamOptions options;
  StreamActor stream;
  caf::typed_response_promise<Admission> promise;
  std::vector<bool> tried;
};

std::optional<size_t> freest(const PlacementState& state, const std::vector<bool>& tried) {
  std::optional<size_t> best;
  for (size_t i = 0; i < state.owners.size(); ++i) {
    const Owner& owner = state.owners[i];
    if (!owner.alive || owner.free <= 0 || tried[i]) continue;
    if (!best || owner.free > state.owners[*best].free) best = i;
  }
  return best;
}

Error refusal(const PlacementState& state) {
  if (std::ranges::none_of(state.owners, &Owner::alive)) {
    return {"no_device", "no device is left that could recognize"};
  }
  return {"full", "every stream of this server is in use; try again later"};
}

/// False when the stream held no place: it has ended.
bool vacate(PlacementState& state, const caf::actor_addr& stream) {
  const auto it = state.placed.find(stream);
  if (it == state.placed.end()) return false;
  ++state.owners[it->second].free;
  state.placed.erase(it);
  return true;
}

void try_next(Self self, Attempt attempt) {
  PlacementState& state = self->state;
  const std::optional<size_t> index = freest(state, attempt.tried);
  if (!index) {
    self->demonitor(attempt.stream.address());
    attempt.promise.deliver(Admission(tl::unexpected(refusal(state))));
    return;
  }
  Owner& owner = state.owners[*index];
  attempt.tried[*index] = true;
  // The place is taken from the moment it is asked for: streams that arrive together spread out.
  --owner.free;
  state.placed[attempt.stream.address()] = *index;
  const auto pass_over = [self, attempt]() {
    if (vacate(self->state, attempt.stream.address())) try_next(self, attempt);
  };
  self->request(owner.actor, caf::infinite, admit_atom_v, attempt.options, attempt.stream)
      .then(
          [attempt, pass_over](const Admission& admission) mutable {
            if (!admission) return pass_over();
            attempt.promise.deliver(admission);
          },
          [pass_over](const caf::error&) { pass_over(); });
}

void on_down(Self self, const caf::down_msg& down, const std::function<void()>& on_last_owner_lost) {
  PlacementState& state = self->state;
  const auto owner = std::ranges::find_if(
      state.owners, [&](const Owner& candidate) { return candidate.actor.address() == down.source; });
  if (owner == state.owners.end()) {
    vacate(state, down.source);
    return;
  }
  owner->alive = false;
  if (std::ranges::none_of(state.owners, &Owner::alive)) on_last_owner_lost();
}

}  // namespace

PlacementActor::behavior_type placement_actor(Self self, const std::vector<PlacedOwner>& owners,
                                              const std::function<void()>& on_last_owner_lost) {
  log_exceptions(self, "placement");
  for (const PlacedOwner& owner : owners) {
    self->monitor(owner.actor);
    self->state.owners.push_back({.actor = owner.actor, .free = owner.max_streams});
  }
  self->set_down_handler(
      [self, on_last_owner_lost](const caf::down_msg& down) { on_down(self, down, on_last_owner_lost); });

  return {
      [self](place_atom, const StreamOptions& options, const StreamActor& stream) {
        auto promise = self->make_response_promise<Admission>();
        self->monitor(stream);
        try_next(self, {.options = options,
                        .stream = stream,
                        .promise = promise,
                        .tried = std::vector<bool>(self->state.owners.size())});
        return promise;
      },
  };
}

}  // namespace tutti
