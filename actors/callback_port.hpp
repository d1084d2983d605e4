#pragma once

#include <string>

namespace tutti {

/// Another service that is told what sessions hear, without having asked.
class CallbackPort {
 public:
  virtual ~CallbackPort() = default;
  /// Queues one message: JSON, with an id that is the same however often it is tried. Never blocks; from any
  /// thread.
  virtual void post(std::string id, std::string body) = 0;
};

}  // namespace tutti
