#pragma once

#include <optional>

namespace tutti {

// Who gives way to whom on a busy machine. Sockets, stream actors and the other actors of the shared threads
// have the normal priority; they do little, and somebody waits for it. What the system refuses is logged and
// otherwise ignored.

/// Makes the calling thread an owner's: nice +5, so that the threads above preempt a tick; no OpenMP team of
/// its own (one thread a core scales, fork and join on a busy machine does not); pinned to `core` if given.
void prepare_owner_thread(std::optional<int> core);

/// Makes the calling thread one that loads a model while others serve: nice +19, no OpenMP team. Threads that
/// it starts are like it.
void prepare_loading_thread();

/// Makes the calling thread one that decodes a file: it runs when no other wants to, so that owners, which
/// uploads keep busy all the time, are not put aside for it while a live stream waits.
void prepare_upload_thread();

}  // namespace tutti
