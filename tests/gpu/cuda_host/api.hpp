#pragma once

#include "gpu/cuda/plugin_api.hpp"

namespace tutti::cuda::host {

/// The plugin's table with the kernels' host forms. Memory lies between guard zones, which are checked after
/// each kernel; a zone reads as NaN. What is queued is done, and throws KernelFault, when somebody waits.
/// The orders of threads follow from a seed that is printed, or given as TUTTI_CUDA_HOST_SEED.
[[nodiscard]] const PluginApi& api();

}  // namespace tutti::cuda::host
