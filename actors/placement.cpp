#include "actors/placement.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "actors/log_exceptions.hpp"

namespace tutti {
namespace {

using Self = PlacementActor::stateful_pointer<PlacementState>;
using Owner = PlacementState::Owner;

/// A placement under way.
struct Attempt {
  [[nodiscard]] PlacementState::Place place() const { return {stream.address(), options.tag}; }

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

/// False when it was not held: its session has ended.
bool vacate(PlacementState& state, const PlacementState::Place& place) {
  const auto it = state.placed.find(place);
  if (it == state.placed.end()) return false;
  ++state.owners[it->second].free;
  state.placed.erase(it);
  return true;
}

/// The first place of a session, when it has one.
std::optional<PlacementState::Place> place_of(const PlacementState& state, const caf::actor_addr& session) {
  const auto it = state.placed.lower_bound({session, std::numeric_limits<int>::min()});
  if (it == state.placed.end() || it->first.first != session) return std::nullopt;
  return it->first;
}

void vacate_all(PlacementState& state, const caf::actor_addr& session) {
  while (const auto place = place_of(state, session)) vacate(state, *place);
}

void try_next(Self self, Attempt attempt) {
  PlacementState& state = self->state;
  const std::optional<size_t> index = freest(state, attempt.tried);
  if (!index) {
    if (!place_of(state, attempt.stream.address())) self->demonitor(attempt.stream.address());
    attempt.promise.deliver(Admission(tl::unexpected(refusal(state))));
    return;
  }
  Owner& owner = state.owners[*index];
  attempt.tried[*index] = true;
  // The place is taken from the moment it is asked for: streams that arrive together spread out.
  --owner.free;
  state.placed[attempt.place()] = *index;
  const auto pass_over = [self, attempt]() {
    if (vacate(self->state, attempt.place())) try_next(self, attempt);
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
    vacate_all(state, down.source);
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
        if (!place_of(self->state, stream.address())) self->monitor(stream);
        try_next(self, {.options = options,
                        .stream = stream,
                        .promise = promise,
                        .tried = std::vector<bool>(self->state.owners.size())});
        return promise;
      },
      [self](vacate_atom, int tag, const StreamActor& stream) {
        if (!vacate(self->state, {stream.address(), tag})) return;
        if (!place_of(self->state, stream.address())) self->demonitor(stream.address());
      },
  };
}

}  // namespace tutti
