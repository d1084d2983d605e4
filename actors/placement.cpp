#include "actors/placement.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <caf/send.hpp>
#include <limits>
#include <ranges>
#include <set>
#include <string>
#include <utility>

#include "actors/log_exceptions.hpp"

namespace tutti {
namespace {

using Self = PlacementActor::stateful_pointer<PlacementState>;
using Owner = PlacementState::Owner;
using Place = PlacementState::Place;
using Attempt = PlacementState::Attempt;
using Time = PlacementState::Time;

/// What the parts of the actor share.
struct Placement {
  Self self;
  PlacementRules rules;
  std::shared_ptr<ServerStatus> status;
  std::shared_ptr<Metrics> metrics;

  [[nodiscard]] PlacementState& state() const { return self->state; }
  [[nodiscard]] Time now() const { return self->clock().now(); }
};

bool takes(const Owner& owner, const PlaceRequest& request) {
  return owner.alive() && owner.free > 0 && (request.is_move || !owner.overloaded);
}

std::optional<size_t> freest(const PlacementState& state, const PlaceRequest& request,
                             const std::vector<bool>& tried) {
  std::optional<size_t> best;
  for (size_t i = 0; i < state.owners.size(); ++i) {
    const Owner& owner = state.owners[i];
    if (!takes(owner, request) || tried[i]) continue;
    if (!best || owner.free > state.owners[*best].free) best = i;
  }
  return best;
}

/// Of a new stream that does not wait.
Room room_of(const PlacementState& state) {
  if (std::ranges::none_of(state.owners, &Owner::alive)) return Room::no_device;
  const auto has_place = [](const Owner& owner) { return owner.alive() && owner.free > 0; };
  if (std::ranges::none_of(state.owners, has_place)) return Room::full;
  const auto takes_new = [](const Owner& owner) { return takes(owner, {}); };
  return std::ranges::any_of(state.owners, takes_new) ? Room::free : Room::overloaded;
}

[[nodiscard]] bool may_wait(const Placement& placement) {
  const PlacementState& state = placement.state();
  return placement.rules.max_wait.count() > 0 && state.waiting.size() < placement.rules.max_waiting;
}

/// Tells those who do not ask.
void publish(const Placement& placement) {
  const PlacementState& state = placement.state();
  const Room room = room_of(state);
  placement.status->set_room(may_wait(placement) && room != Room::no_device ? Room::free : room);
  placement.status->set_hung_owner(
      std::ranges::any_of(state.owners, [](const Owner& owner) { return owner.started && !owner.answers; }));
  placement.status->set_owners_complete(std::ranges::all_of(state.owners, &Owner::alive));
  int places = 0;
  int overloaded = 0;
  for (const Owner& owner : state.owners) {
    if (!owner.alive()) continue;
    places += owner.max_streams;
    overloaded += owner.overloaded ? 1 : 0;
  }
  placement.metrics->owners(static_cast<int>(std::ranges::count_if(state.owners, &Owner::alive)), overloaded,
                            static_cast<int>(std::ranges::count_if(
                                state.owners, [](const Owner& owner) { return !owner.alive(); })));
  placement.metrics->stream_places(places);
  placement.metrics->waiting_streams(state.waiting.size() + state.moving.size());
}

// Who has places, and who waits for one.

/// False when it was not held: its session has ended, or its owner was lost.
bool vacate(PlacementState& state, const Place& place) {
  const auto it = state.placed.find(place);
  if (it == state.placed.end()) return false;
  ++state.owners[it->second].free;
  state.placed.erase(it);
  return true;
}

/// The first place of a session, when it has one.
std::optional<Place> place_of(const PlacementState& state, const caf::actor_addr& session) {
  const auto it = state.placed.lower_bound({session, std::numeric_limits<int>::min()});
  if (it == state.placed.end() || it->first.first != session) return std::nullopt;
  return it->first;
}

template <class Condition>
void forget_attempts(PlacementState& state, Condition condition) {
  std::erase_if(state.asked, [&](const auto& entry) { return condition(entry.second); });
  std::erase_if(state.moving, condition);
  std::erase_if(state.waiting, condition);
}

bool is_known(const PlacementState& state, const caf::actor_addr& session) {
  const auto is_its = [&](const Attempt& attempt) { return attempt.stream.address() == session; };
  return place_of(state, session) || std::ranges::any_of(state.asked | std::views::values, is_its) ||
         std::ranges::any_of(state.moving, is_its) || std::ranges::any_of(state.waiting, is_its);
}

void forget_session(PlacementState& state, const caf::actor_addr& session) {
  while (const auto place = place_of(state, session)) vacate(state, *place);
  forget_attempts(state, [&](const Attempt& attempt) { return attempt.stream.address() == session; });
}

void refuse(const Placement& placement, Attempt& attempt, const Error& error) {
  if (!is_known(placement.state(), attempt.stream.address())) {
    placement.self->demonitor(attempt.stream.address());
  }
  attempt.promise.deliver(Admission(tl::unexpected(error)));
}

/// Of a stream that lost its owner: another may come.
bool may_hope(const PlacementState& state) {
  return std::ranges::any_of(state.owners, [](const Owner& owner) { return owner.started || owner.replace; });
}

/// To the end of its line, or back to the head of it when it has waited there.
void wait_or_refuse(const Placement& placement, Attempt attempt) {
  PlacementState& state = placement.state();
  const bool is_move = attempt.request.is_move;
  const bool has_waited = attempt.deadline != Time{};
  std::deque<Attempt>& line = is_move ? state.moving : state.waiting;
  if (has_waited) {
    line.push_front(std::move(attempt));
    return;
  }
  if (is_move ? !may_hope(state) : !may_wait(placement)) {
    return refuse(placement, attempt, refusal_of(room_of(state)));
  }
  const std::chrono::milliseconds wait = is_move ? move_wait : placement.rules.max_wait;
  attempt.deadline = placement.now() + wait;
  line.push_back(std::move(attempt));
  placement.self->delayed_send(placement.self, wait, idle_atom_v);
}

void try_next(const Placement& placement, Attempt attempt);

/// An owner passed over is not asked again. What nobody waits for any more gives its place back by being
/// dropped.
void on_answer(const Placement& placement, uint64_t number, const Admission& answer) {
  auto node = placement.state().asked.extract(number);
  if (node.empty()) return;
  Attempt& attempt = node.mapped();
  if (answer) {
    placement.metrics->place_given(placement.now() - attempt.came);
    attempt.promise.deliver(answer);
    return;
  }
  vacate(placement.state(), attempt.place());
  try_next(placement, std::move(attempt));
}

void try_next(const Placement& placement, Attempt attempt) {
  PlacementState& state = placement.state();
  const std::optional<size_t> index = freest(state, attempt.request, attempt.tried);
  if (!index) {
    wait_or_refuse(placement, std::move(attempt));
    return publish(placement);
  }
  Owner& owner = state.owners[*index];
  attempt.tried[*index] = true;
  // The place is taken from the moment it is asked for: streams that arrive together spread out.
  --owner.free;
  state.placed[attempt.place()] = *index;
  publish(placement);
  const uint64_t number = ++state.last_asked;
  placement.self->request(owner.actor, caf::infinite, admit_atom_v, attempt.request.options, attempt.stream)
      .then([placement, number](const Admission& answer) { on_answer(placement, number, answer); },
            [placement, number](const caf::error&) {
              on_answer(placement, number, tl::unexpected(refusal_of(Room::no_device)));
            });
  state.asked.emplace(number, std::move(attempt));
}

/// Those who wait longest get what has become free.
void serve_line(const Placement& placement, std::deque<Attempt>& line) {
  while (!line.empty()) {
    Attempt& first = line.front();
    first.tried.assign(placement.state().owners.size(), false);
    if (!freest(placement.state(), first.request, first.tried)) return;
    Attempt attempt = std::move(first);
    line.pop_front();
    try_next(placement, std::move(attempt));
  }
}

void serve_waiting(const Placement& placement) {
  serve_line(placement, placement.state().moving);
  serve_line(placement, placement.state().waiting);
  publish(placement);
}

void refuse_overdue(const Placement& placement, std::deque<Attempt>& line) {
  while (!line.empty() && line.front().deadline <= placement.now()) {
    Attempt attempt = std::move(line.front());
    line.pop_front();
    refuse(placement, attempt, refusal_of(room_of(placement.state())));
  }
}

void place(const Placement& placement, Attempt attempt) {
  PlacementState& state = placement.state();
  if (!is_known(state, attempt.stream.address())) placement.self->monitor(attempt.stream);
  if (attempt.request.is_move || state.waiting.empty()) return try_next(placement, std::move(attempt));
  wait_or_refuse(placement, std::move(attempt));
  publish(placement);
}

// The owners' lives.

/// Its streams ask for places on others.
void lose(const Placement& placement, Owner& owner, const char* how) {
  PlacementState& state = placement.state();
  const auto index = static_cast<size_t>(&owner - state.owners.data());
  std::vector<Attempt> unanswered;
  std::erase_if(state.asked, [&](auto& entry) {
    const auto at = state.placed.find(entry.second.place());
    if (at == state.placed.end() || at->second != index) return false;
    unanswered.push_back(std::move(entry.second));
    state.placed.erase(at);
    return true;
  });
  std::set<caf::actor_addr> sessions;
  std::erase_if(state.placed, [&](const auto& entry) {
    if (entry.second != index) return false;
    sessions.insert(entry.first.first);
    return true;
  });
  spdlog::critical("an owner {}: its {} sessions move to others", how, sessions.size());
  placement.metrics->owner_lost(how);
  owner.free = 0;
  for (const caf::actor_addr& session : sessions) {
    if (const auto stream = caf::actor_cast<StreamActor>(session)) {
      caf::anon_send(stream, lost_atom_v, owner.actor.address());
    }
  }
  for (Attempt& attempt : unanswered) try_next(placement, std::move(attempt));
  publish(placement);
}

Owner* find_owner(PlacementState& state, const caf::actor_addr& address) {
  const auto owner = std::ranges::find_if(
      state.owners, [&](const Owner& candidate) { return candidate.actor.address() == address; });
  return owner == state.owners.end() ? nullptr : &*owner;
}

void recover(const Placement& placement, Owner& owner, int max_streams) {
  owner.started = owner.answers = true;
  owner.overloaded = false;
  owner.free = owner.max_streams = max_streams;
  serve_waiting(placement);
}

/// Not at once where it was done just now.
void replace_later(const Placement& placement, const Owner& owner) {
  if (!owner.replace) return;
  const auto index = static_cast<int>(&owner - placement.state().owners.data());
  const Time due = owner.replaced ? *owner.replaced + replacement_pause : placement.now();
  const auto pause = std::max(due - placement.now(), Time::duration::zero());
  placement.self->delayed_send(placement.self, pause, start_atom_v, index);
}

void replace(const Placement& placement, Owner& owner) {
  owner.replaced = placement.now();
  owner.pinged.reset();
  owner.actor = owner.replace();
  placement.self->monitor(owner.actor);
  placement.self->request(owner.actor, caf::infinite, start_atom_v)
      .then(
          [placement, address = owner.actor.address()](const Started& started) {
            Owner* const replaced = find_owner(placement.state(), address);
            if (replaced == nullptr) return;
            if (!started)
              return spdlog::critical("an owner could not be replaced: {}", started.error().message);
            spdlog::warn("an owner was replaced");
            recover(placement, *replaced, started->max_streams);
          },
          [](const caf::error&) {});  // it is gone, as a down message says
}

void on_pong(const Placement& placement, const caf::actor_addr& address, bool overloaded) {
  Owner* const owner = find_owner(placement.state(), address);
  if (owner == nullptr) return;
  owner->pinged.reset();
  if (!owner->answers) {
    spdlog::warn("an owner that had hung answers again");
    recover(placement, *owner, owner->max_streams);
  }
  if (overloaded != owner->overloaded) {
    spdlog::warn(overloaded ? "an owner is late with its streams and takes no new ones"
                            : "an owner takes new streams again");
    owner->overloaded = overloaded;
    serve_waiting(placement);
  }
}

void watch(const Placement& placement) {
  PlacementState& state = placement.state();
  for (Owner& owner : state.owners) {
    if (!owner.started) continue;
    if (!owner.pinged) {
      owner.pinged = placement.now();
      placement.self->request(owner.actor, caf::infinite, ping_atom_v)
          .then([placement, address = owner.actor.address()](
                    bool overloaded) { on_pong(placement, address, overloaded); },
                [](const caf::error&) {});
    } else if (owner.answers && placement.now() - *owner.pinged >= placement.rules.owner_timeout) {
      owner.answers = false;
      lose(placement, owner, "hung");
    }
  }
  const auto interval =
      std::min<std::chrono::milliseconds>(placement.rules.owner_timeout / 4, std::chrono::seconds(1));
  placement.self->delayed_send(placement.self, interval, watch_atom_v);
}

void on_down(const Placement& placement, const caf::down_msg& down) {
  Owner* const owner = find_owner(placement.state(), down.source);
  if (owner == nullptr) {
    forget_session(placement.state(), down.source);
    return serve_waiting(placement);
  }
  owner->started = false;
  lose(placement, *owner, "died");
  replace_later(placement, *owner);
  // Nobody is left for whom it would be worth while to wait.
  if (may_hope(placement.state())) return;
  for (Attempt& attempt : std::exchange(placement.state().moving, {})) {
    refuse(placement, attempt, refusal_of(Room::no_device));
  }
}

}  // namespace

PlacementState::~PlacementState() {
  for (const Owner& owner : owners) caf::anon_send_exit(owner.actor, caf::exit_reason::user_shutdown);
}

PlacementActor::behavior_type placement_actor(Self self, const PlacementSetup& setup) {
  log_exceptions(self, "placement");
  const Placement placement{
      .self = self, .rules = setup.rules, .status = setup.status, .metrics = setup.metrics};
  for (const PlacedOwner& owner : setup.owners) {
    self->monitor(owner.actor);
    self->state.owners.push_back({.actor = owner.actor,
                                  .max_streams = owner.max_streams,
                                  .replace = owner.replace,
                                  .free = owner.max_streams});
  }
  self->set_down_handler([placement](const caf::down_msg& down) { on_down(placement, down); });
  publish(placement);
  watch(placement);

  return {
      [placement](place_atom, const PlaceRequest& request, const StreamActor& stream) {
        auto promise = placement.self->make_response_promise<Admission>();
        place(placement, {.request = request,
                          .stream = stream,
                          .promise = promise,
                          .tried = std::vector<bool>(placement.state().owners.size()),
                          .came = placement.now(),
                          .deadline = {}});
        return promise;
      },
      [placement](vacate_atom, int tag, const StreamActor& stream) {
        PlacementState& state = placement.state();
        const Place place{stream.address(), tag};
        const bool was_known = is_known(state, stream.address());
        vacate(state, place);
        forget_attempts(state, [&](const Attempt& attempt) { return attempt.place() == place; });
        if (was_known && !is_known(state, stream.address())) placement.self->demonitor(stream.address());
        serve_waiting(placement);
      },
      [placement](idle_atom) {
        refuse_overdue(placement, placement.state().moving);
        refuse_overdue(placement, placement.state().waiting);
        publish(placement);
      },
      [placement](watch_atom) { watch(placement); },
      [placement](start_atom, int owner) {
        replace(placement, placement.state().owners[static_cast<size_t>(owner)]);
      },
  };
}

}  // namespace tutti
