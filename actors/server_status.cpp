#include "actors/server_status.hpp"

namespace tutti {

Error refusal_of(Room room) {
  switch (room) {
    case Room::free:
    case Room::full:
      return {"full", "every stream of this server is in use; try again later"};
    case Room::overloaded:
      return {"overloaded", "this server is busy with the streams it has; try again later"};
    case Room::no_device:
      return {"no_device", "no device is left that could recognize; try again later"};
  }
  return {};
}

Error draining_refusal() { return {"draining", "the server is shutting down"}; }

std::optional<Error> ServerStatus::refusal(std::string_view dialect) const {
  const Room room = room_;
  if (!draining_ && room == Room::free) return std::nullopt;
  Error error = draining_ ? draining_refusal() : refusal_of(room);
  metrics_.refused(dialect, error.code);
  return error;
}

}  // namespace tutti
