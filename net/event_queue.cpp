#include "net/event_queue.hpp"

#include <algorithm>
#include <utility>

namespace tutti {

bool EventQueue::drop_partial() {
  const auto partial = std::ranges::find(entries_, true, &Entry::is_partial);
  if (partial == entries_.end()) return false;
  entries_.erase(partial);
  return true;
}

EventQueue::Outcome EventQueue::push(std::string message, bool is_partial) {
  const bool full = entries_.size() >= capacity_;
  const bool superseded = (is_partial || full) && drop_partial();
  if (full && !superseded) return is_partial ? Outcome::superseded : Outcome::overflow;
  entries_.push_back({std::move(message), is_partial});
  return superseded ? Outcome::superseded : Outcome::queued;
}

std::string EventQueue::pop() {
  std::string message = std::move(entries_.front().message);
  entries_.pop_front();
  return message;
}

}  // namespace tutti
