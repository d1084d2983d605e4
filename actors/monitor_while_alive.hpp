#pragma once

namespace tutti {

/// Monitors `other`, which lives longer, until `self` ends. CAF would keep a monitor with who is watched, and
/// the memory of who watched with it: an owner would keep something of every stream that it ever had.
template <class Self, class Actor>
void monitor_while_alive(Self self, const Actor& other) {
  self->monitor(other);
  self->attach_functor([self, whom = other.address()] { self->demonitor(whom); });
}

}  // namespace tutti
