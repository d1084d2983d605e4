#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace tutti {

/// Names a stream for the cache managers; any integer that is unique among the streams that are open.
using StreamId = int64_t;

/// A stream id (or, for caches addressed by slot, a slot) that was never allocated, or was freed.
struct UnknownStream : std::out_of_range {
  UnknownStream(const char* where, StreamId id, const char* what = "stream")
      : std::out_of_range(std::string(where) + ": " + what + " " + std::to_string(id) + " is not allocated") {
  }
};

/// More blocks, slots or states were asked for than are free.
struct PoolExhausted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace tutti
