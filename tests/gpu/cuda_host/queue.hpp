#pragma once

#include <functional>
#include <random>

#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/recording.hpp"

namespace tutti::cuda::host {

/// What the queue does with work, and has noted of it.
[[nodiscard]] Recording& recording(Queue* queue);

/// Queues work, which is done, in its order, no sooner than somebody waits for it: the host's data that a
/// copy reads have to last until then. `random` draws the order of the threads.
void enqueue(Queue* queue, std::function<void(std::mt19937_64& random)> work);

}  // namespace tutti::cuda::host
