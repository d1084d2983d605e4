#pragma once

#include "gpu/cuda/plugin_api.hpp"

namespace tutti::cuda::host {

/// GPUs that the host form pretends to have.
inline constexpr int devices = 2;

/// The plugin's table with the kernels' host forms. Memory lies between guard zones, which are checked after
/// each kernel; a zone reads as NaN. What is queued is done, and throws KernelFault, when somebody waits for
/// it, on the host or in another queue; what consists of copies alone now and then at once, since the
/// hardware that copies may be idle. An event that is asked for is now and then not reached yet. Work that is
/// given another GPU's memory is a KernelFault. The orders of threads follow from a seed that is printed, or
/// given as TUTTI_CUDA_HOST_SEED.
[[nodiscard]] const PluginApi& api();

/// From now on every call that has to do with the GPU fails, as after a fault that its driver cannot clear;
/// until it is found again.
void lose_device(int device);
void find_devices();

}  // namespace tutti::cuda::host
