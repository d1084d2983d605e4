#pragma once

#include <atomic>
#include <caf/actor_system.hpp>
#include <caf/typed_actor.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "actors/messages.hpp"
#include "actors/session_trace.hpp"

namespace tutti {

/// A trace on its way to its file.
struct EndedTrace {
  std::shared_ptr<const SessionTrace> trace;
};

}  // namespace tutti

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tutti::EndedTrace)

namespace tutti {

/// Writes files, in a thread of its own. Mailbox: max_waiting of TraceWriter.
using TraceWriterActor = caf::typed_actor<caf::reacts_to<written_atom, EndedTrace>,
                                          caf::reacts_to<stop_atom>>;  // after all that came before

/// Begins the traces of sessions, and writes each into a file of its own, SESSION.json, when its session has
/// ended. From any thread; nobody waits for a disk.
class TraceWriter {
 public:
  /// Sessions that are traced, the first ones: so many files, and traces in memory.
  static constexpr int max_traces = 256;
  /// Traces that may wait to be written; one more is dropped.
  static constexpr int max_waiting = 16;

  /// Throws SetupError unless `folder` is a directory.
  static void check(const std::filesystem::path& folder);
  /// Throws as check.
  TraceWriter(caf::actor_system& system, std::filesystem::path folder);
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;
  /// What has ended is still written.
  ~TraceWriter();

  /// Null when as many were begun as may be.
  [[nodiscard]] std::shared_ptr<SessionTrace> begin(const std::string& session, std::string_view dialect);
  void end(std::shared_ptr<const SessionTrace> trace);

 private:
  std::shared_ptr<std::atomic<int>> waiting_ = std::make_shared<std::atomic<int>>(0);
  std::atomic<int> begun_{0};
  TraceWriterActor actor_;
};

}  // namespace tutti
