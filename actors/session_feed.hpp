#pragma once

#include <string>

#include "proto/events.hpp"
#include "proto/native.hpp"

namespace tutti {

/// Where a session tells those who watch it what it hears.
class SessionFeed {
 public:
  virtual ~SessionFeed() = default;
  /// Another name to find the session by.
  virtual void announce(const std::string& name) = 0;
  virtual void on_event(const proto::TrackName& track, const proto::ServerEvent& event) = 0;
  /// The last call: nothing more is heard.
  virtual void end() = 0;
};

}  // namespace tutti
