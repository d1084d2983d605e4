#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace tutti {

/// Names a stream for the cache managers; any integer that is unique among the streams that are open.
using StreamId = int64_t;

/// A stream id that was never allocated, or was freed.
struct UnknownStream : std::out_of_range {
  UnknownStream(const char* where, StreamId id)
      : std::out_of_range(std::string(where) + ": stream " + std::to_string(id) + " is not allocated") {}
};

/// More blocks, slots or states were asked for than are free.
struct PoolExhausted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace tutti
