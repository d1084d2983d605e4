#pragma once

#include <cstddef>
#include <optional>

namespace tutti::cuda::host {

/// What is not on a GPU, but pinned; and what is mapped for all of them besides.
inline constexpr int no_device = -1;
inline constexpr int every_device = -2;

/// Zeroed memory of a device between two guard zones.
[[nodiscard]] std::byte* allocate_guarded(int device, size_t bytes);
void release_guarded(std::byte* memory);
/// Throws KernelFault if a zone of any memory was written to.
void check_guards();
/// Whose memory the address is in; nothing where it is in none that was allocated here.
[[nodiscard]] std::optional<int> device_of(const void* address);
/// In all, of one device.
[[nodiscard]] size_t allocated(int device);

}  // namespace tutti::cuda::host
