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
  std::shared_ptr<ServerStatus> status;
  std::shared_ptr<Metrics> metrics;

  [[nodiscard]] PlacementState& state() const { return self->state; }
  [[nodiscard]] Time now() const { return self->clock().now(); }
};

auto owners_of(const PlacementState& state) { return state.owners | std::views::values; }

bool takes(const Owner& owner, const PlaceRequest& request) {
  if (!owner.alive() || owner.free <= 0) return false;
  if (request.is_move) return owner.model_identity == request.model_identity;
  return !owner.retiring && !owner.overloaded;
}

std::optional<int> freest(const PlacementState& state, const PlaceRequest& request,
                          const std::set<int>& tried) {
  std::optional<int> best;
  for (const auto& [number, owner] : state.owners) {
    if (!takes(owner, request) || tried.contains(number)) continue;
    if (!best || owner.free > state.owners.at(*best).free) best = number;
  }
  return best;
}

/// Of a new stream that does not wait.
Room room_of(const PlacementState& state) {
  const auto owners = owners_of(state);
  if (std::ranges::none_of(owners, &Owner::serves)) return Room::no_device;
  const auto has_place = [](const Owner& owner) { return owner.serves() && owner.free > 0; };
  if (std::ranges::none_of(owners, has_place)) return Room::full;
  const auto takes_new = [](const Owner& owner) { return takes(owner, {}); };
  return std::ranges::any_of(owners, takes_new) ? Room::free : Room::overloaded;
}

[[nodiscard]] bool may_wait(const Placement& placement) {
  const PlacementState& state = placement.state();
  return placement.state().rules.max_wait.count() > 0 &&
         state.waiting.size() < placement.state().rules.max_waiting;
}

/// Tells those who do not ask.
void publish(const Placement& placement) {
  const PlacementState& state = placement.state();
  const auto owners = owners_of(state);
  const Room room = room_of(state);
  placement.status->set_room(may_wait(placement) && room != Room::no_device ? Room::free : room);
  placement.status->set_hung_owner(std::ranges::any_of(
      owners, [](const Owner& owner) { return !owner.is_remote && owner.started && !owner.answers; }));
  placement.status->set_owners_complete(
      std::ranges::any_of(owners, &Owner::serves) &&
      std::ranges::all_of(owners, [](const Owner& owner) { return owner.alive() || owner.is_remote; }));
  int places = 0;
  Metrics::OwnerCounts counts;
  for (const Owner& owner : owners) {
    counts.alive += owner.alive() ? 1 : 0;
    counts.overloaded += owner.alive() && owner.overloaded ? 1 : 0;
    counts.retiring += owner.alive() && owner.retiring ? 1 : 0;
    counts.lost += owner.alive() ? 0 : 1;
    places += owner.serves() ? owner.max_streams : 0;
  }
  placement.metrics->owners(counts);
  placement.metrics->stream_places(places);
  placement.metrics->waiting_streams(state.waiting.size() + state.moving.size());
}

// Who has places, and who waits for one.

/// False when it was not held: its session has ended, or its owner was lost.
bool vacate(PlacementState& state, const Place& place) {
  const auto it = state.placed.find(place);
  if (it == state.placed.end()) return false;
  ++state.owners.at(it->second).free;
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
bool may_hope(const Placement& placement) {
  return placement.state().rules.owners_may_join ||
         std::ranges::any_of(owners_of(placement.state()),
                             [](const Owner& owner) { return owner.started || owner.replace; });
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
  if (is_move ? !may_hope(placement) : !may_wait(placement)) {
    return refuse(placement, attempt, refusal_of(room_of(state)));
  }
  const std::chrono::milliseconds wait = is_move ? move_wait : placement.state().rules.max_wait;
  attempt.deadline = placement.now() + wait;
  line.push_back(std::move(attempt));
  placement.self->delayed_send(placement.self, wait, idle_atom_v);
}

void try_next(const Placement& placement, Attempt attempt);

/// Where an owner refused a stream that should have fitted. On one that others use too, others took the
/// place.
void give_up_place(PlacementState& state, const Place& place) {
  const auto it = state.placed.find(place);
  if (it == state.placed.end()) return;
  Owner& owner = state.owners.at(it->second);
  vacate(state, place);
  if (owner.is_shared) owner.free = 0;
}

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
  give_up_place(placement.state(), attempt.place());
  try_next(placement, std::move(attempt));
}

void try_next(const Placement& placement, Attempt attempt) {
  PlacementState& state = placement.state();
  const std::optional<int> number = freest(state, attempt.request, attempt.tried);
  if (!number) {
    wait_or_refuse(placement, std::move(attempt));
    return publish(placement);
  }
  Owner& owner = state.owners.at(*number);
  attempt.tried.insert(*number);
  // The place is taken from the moment it is asked for: streams that arrive together spread out.
  --owner.free;
  ++owner.taken_since_ping;
  state.placed[attempt.place()] = *number;
  publish(placement);
  const uint64_t attempt_number = ++state.last_asked;
  placement.self->request(owner.actor, caf::infinite, admit_atom_v, attempt.request.options, attempt.stream)
      .then([placement,
             attempt_number](const Admission& answer) { on_answer(placement, attempt_number, answer); },
            [placement, attempt_number](const caf::error&) {
              on_answer(placement, attempt_number, tl::unexpected(refusal_of(Room::no_device)));
            });
  state.asked.emplace(attempt_number, std::move(attempt));
}

/// Those who wait longest get what has become free.
void serve_line(const Placement& placement, std::deque<Attempt>& line) {
  while (!line.empty()) {
    Attempt& first = line.front();
    first.tried.clear();
    if (!freest(placement.state(), first.request, first.tried)) return;
    Attempt attempt = std::move(first);
    line.pop_front();
    try_next(placement, std::move(attempt));
  }
}

/// Whether a retired owner has streams, or may get some that lost another of its model. One that hangs cannot
/// be ended.
bool is_needed(const PlacementState& state, int number) {
  const Owner& owner = state.owners.at(number);
  if (!owner.retiring || !owner.answers) return true;
  const auto is_of_its_model = [&](const Attempt& attempt) {
    return attempt.request.is_move && attempt.request.model_identity == owner.model_identity;
  };
  return std::ranges::any_of(state.placed | std::views::values, [&](int at) { return at == number; }) ||
         std::ranges::any_of(state.asked | std::views::values, is_of_its_model) ||
         std::ranges::any_of(state.moving, is_of_its_model);
}

void end_retired(const Placement& placement) {
  PlacementState& state = placement.state();
  std::erase_if(state.owners, [&](const auto& entry) {
    if (is_needed(state, entry.first)) return false;
    placement.self->demonitor(entry.second.actor.address());
    caf::anon_send_exit(entry.second.actor, caf::exit_reason::user_shutdown);
    spdlog::info("an owner that had retired has no streams left, and ended");
    return true;
  });
}

void serve_waiting(const Placement& placement) {
  serve_line(placement, placement.state().moving);
  serve_line(placement, placement.state().waiting);
  end_retired(placement);
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
void lose(const Placement& placement, int number, const char* how) {
  PlacementState& state = placement.state();
  Owner& owner = state.owners.at(number);
  std::vector<Attempt> unanswered;
  std::erase_if(state.asked, [&](auto& entry) {
    const auto at = state.placed.find(entry.second.place());
    if (at == state.placed.end() || at->second != number) return false;
    unanswered.push_back(std::move(entry.second));
    state.placed.erase(at);
    return true;
  });
  std::set<caf::actor_addr> sessions;
  std::erase_if(state.placed, [&](const auto& entry) {
    if (entry.second != number) return false;
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

std::optional<int> find_owner(const PlacementState& state, const caf::actor_addr& address) {
  const auto found = std::ranges::find_if(
      state.owners, [&](const auto& entry) { return entry.second.actor.address() == address; });
  if (found == state.owners.end()) return std::nullopt;
  return found->first;
}

void recover(Owner& owner, int max_streams) {
  owner.started = owner.answers = true;
  owner.overloaded = false;
  owner.free = owner.max_streams = max_streams;
}

void join(const Placement& placement, const std::vector<PlacedOwner>& owners) {
  for (const PlacedOwner& joining : owners) {
    Owner owner{joining};
    owner.free = joining.max_streams;
    placement.self->monitor(joining.actor);
    placement.state().owners.emplace(++placement.state().last_owner, std::move(owner));
  }
  serve_waiting(placement);
}

/// New streams never find both, nor neither.
int swap(const Placement& placement, const NewOwners& fresh) {
  PlacementState& state = placement.state();
  for (Owner& owner : state.owners | std::views::values) owner.retiring |= !owner.is_remote;
  join(placement, fresh.owners);
  return static_cast<int>(std::ranges::count_if(
      state.placed | std::views::values, [&](int number) { return state.owners.at(number).retiring; }));
}

/// Not at once where it was done just now.
void replace_later(const Placement& placement, int number) {
  const Owner& owner = placement.state().owners.at(number);
  const Time due = owner.replaced ? *owner.replaced + replacement_pause : placement.now();
  const auto pause = std::max(due - placement.now(), Time::duration::zero());
  placement.self->delayed_send(placement.self, pause, start_atom_v, number);
}

void replace(const Placement& placement, Owner& owner) {
  owner.replaced = placement.now();
  owner.pinged.reset();
  owner.actor = owner.replace();
  placement.self->monitor(owner.actor);
  placement.self->request(owner.actor, caf::infinite, start_atom_v)
      .then(
          [placement, address = owner.actor.address()](const Started& started) {
            const std::optional<int> number = find_owner(placement.state(), address);
            if (!number) return;
            if (!started)
              return spdlog::critical("an owner could not be replaced: {}", started.error().message);
            spdlog::warn("an owner was replaced");
            recover(placement.state().owners.at(*number), started->max_streams);
            serve_waiting(placement);
          },
          [](const caf::error&) {});  // it is gone, as a down message says
}

void on_pong(const Placement& placement, const caf::actor_addr& address, const OwnerHealth& health) {
  const std::optional<int> number = find_owner(placement.state(), address);
  if (!number) return;
  Owner& owner = placement.state().owners.at(*number);
  owner.pinged.reset();
  if (!owner.answers) {
    spdlog::warn("an owner that had hung answers again");
    recover(owner, owner.max_streams);
  }
  const bool was_overloaded = std::exchange(owner.overloaded, health.overloaded);
  if (health.overloaded != was_overloaded) {
    spdlog::warn(health.overloaded ? "an owner is late with its streams and takes no new ones"
                                   : "an owner takes new streams again");
  }
  if (owner.is_shared) owner.free = std::max(0, health.free - owner.taken_since_ping);
  serve_waiting(placement);
}

void watch(const Placement& placement) {
  PlacementState& state = placement.state();
  for (auto& [number, owner] : state.owners) {
    if (!owner.started) continue;
    if (!owner.pinged) {
      owner.pinged = placement.now();
      owner.taken_since_ping = 0;
      placement.self->request(owner.actor, caf::infinite, ping_atom_v)
          .then([placement, address = owner.actor.address()](
                    const OwnerHealth& health) { on_pong(placement, address, health); },
                [](const caf::error&) {});
    } else if (owner.answers && placement.now() - *owner.pinged >= placement.state().rules.owner_timeout) {
      owner.answers = false;
      lose(placement, number, "hung");
    }
  }
  const auto interval =
      std::min<std::chrono::milliseconds>(placement.state().rules.owner_timeout / 4, std::chrono::seconds(1));
  placement.self->delayed_send(placement.self, interval, watch_atom_v);
}

void on_down(const Placement& placement, const caf::down_msg& down) {
  PlacementState& state = placement.state();
  const std::optional<int> number = find_owner(state, down.source);
  if (!number) {
    forget_session(state, down.source);
    return serve_waiting(placement);
  }
  Owner& owner = state.owners.at(*number);
  owner.started = false;
  lose(placement, *number, "died");
  if (owner.replace) {
    replace_later(placement, *number);
  } else if (owner.is_remote) {
    state.owners.erase(*number);
    publish(placement);
  }
  // Nobody is left for whom it would be worth while to wait.
  if (may_hope(placement)) return;
  for (Attempt& attempt : std::exchange(state.moving, {})) {
    refuse(placement, attempt, refusal_of(Room::no_device));
  }
}

}  // namespace

PlacementState::~PlacementState() {
  for (const Owner& owner : owners | std::views::values) {
    caf::anon_send_exit(owner.actor, caf::exit_reason::user_shutdown);
  }
}

PlacementActor::behavior_type placement_actor(Self self, const PlacementSetup& setup) {
  log_exceptions(self, "placement");
  self->state.rules = setup.rules;
  const Placement placement{.self = self, .status = setup.status, .metrics = setup.metrics};
  join(placement, setup.owners);
  self->set_down_handler([placement](const caf::down_msg& down) { on_down(placement, down); });
  publish(placement);
  watch(placement);

  return {
      [placement](place_atom, const PlaceRequest& request, const StreamActor& stream) {
        auto promise = placement.self->make_response_promise<Admission>();
        place(placement, {.request = request,
                          .stream = stream,
                          .promise = promise,
                          .tried = {},
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
      [placement](join_atom, const PlacedOwner& owner) { join(placement, {owner}); },
      [placement](swap_atom, const NewOwners& fresh) { return swap(placement, fresh); },
      [placement](rules_atom, const PlacementRules& rules) {
        placement.state().rules = rules;
        publish(placement);
      },
      [placement](idle_atom) {
        refuse_overdue(placement, placement.state().moving);
        refuse_overdue(placement, placement.state().waiting);
        serve_waiting(placement);
      },
      [placement](watch_atom) { watch(placement); },
      [placement](start_atom, int number) {
        const auto owner = placement.state().owners.find(number);
        if (owner != placement.state().owners.end()) replace(placement, owner->second);
      },
  };
}

}  // namespace tutti
