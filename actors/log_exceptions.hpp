#pragma once

#include <spdlog/spdlog.h>

#include <caf/error.hpp>
#include <caf/exit_reason.hpp>
#include <exception>
#include <string>
#include <utility>

namespace tutti {

/// An exception that leaves a handler ends its actor; this says which and why. Those who watch the actor see
/// its end with an error.
template <class Actor>
void log_exceptions(Actor* self, std::string who) {
  self->set_exception_handler([who = std::move(who)](const std::exception_ptr& exception) -> caf::error {
    try {
      std::rethrow_exception(exception);
    } catch (const std::exception& e) {
      spdlog::critical("{} failed: {}", who, e.what());
    } catch (...) {
      spdlog::critical("{} failed", who);
    }
    return caf::exit_reason::unhandled_exception;
  });
}

}  // namespace tutti
