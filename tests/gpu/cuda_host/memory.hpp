#pragma once

#include <cstddef>

namespace tutti::cuda::host {

/// Zeroed memory between two guard zones.
[[nodiscard]] std::byte* allocate_guarded(size_t bytes);
void release_guarded(std::byte* memory);
/// Throws KernelFault if a zone of any memory was written to.
void check_guards();

}  // namespace tutti::cuda::host
