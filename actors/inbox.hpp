#pragma once

#include <atomic>
#include <cstdint>

namespace tutti {

/// Control messages (finalize, eof, ...) a session may have unprocessed.
inline constexpr int max_control_messages = 4;
/// Audio messages a session may have unhandled, however small they are.
inline constexpr int max_audio_messages = 8192;

/// The bound of a stream actor's mailbox: counted up by the session's thread before a message is sent, and
/// down by the stream actor as it works them off.
struct Inbox {
  /// What the session may still send. A message may exceed it, so it can go below zero; one sent at or below
  /// zero is an overrun.
  std::atomic<int64_t> credit_bytes{0};
  std::atomic<int> audio_messages{0};
  std::atomic<int> control_messages{0};
};

}  // namespace tutti
