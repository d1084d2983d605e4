#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tutti::cuda {

/// Queues PluginApi::layer_norm on the current device.
[[nodiscard]] cudaError_t layer_norm(const float* x, int64_t rows, int64_t cols, const float* gamma,
                                     const float* beta, float eps, float* y);

}  // namespace tutti::cuda
