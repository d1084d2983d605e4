#pragma once

#include <optional>

namespace tutti {

/// Makes the calling thread an owner's: nice +5, so that sockets and the other actors preempt a tick; no
/// OpenMP team of its own (one thread a core scales, fork and join on a busy machine does not); pinned to
/// `core` if given. A refusal by the system is logged and otherwise ignored.
void prepare_owner_thread(std::optional<int> core);

}  // namespace tutti
