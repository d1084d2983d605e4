#pragma once

#include "gpu/cuda/intrinsics.cuh"

namespace tutti::cuda {

__device__ inline float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }
__device__ inline float swish(float x) { return x / (1.0F + expf(-x)); }

}  // namespace tutti::cuda
