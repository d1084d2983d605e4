#pragma once

#include <cstddef>
#include <functional>
#include <random>

#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/recording.hpp"

namespace tutti::cuda::host {

/// What the queue does with work, and has noted of it.
[[nodiscard]] Recording& recording(Queue* queue);
[[nodiscard]] bool is_lost(const Queue* queue);

/// Queues a kernel, which is run, in its order, no sooner than somebody waits for it: the host's data that a
/// copy reads have to last until then. `random` draws the order of the threads.
void enqueue(Queue* queue, std::function<void(std::mt19937_64& random)> kernel);

/// Throws KernelFault if what a kernel is given, of which it may be a part, points into another GPU's memory.
void require_own_memory(const Queue* queue, const void* argument, size_t size);

}  // namespace tutti::cuda::host
