#pragma once

#include <cuda_runtime_api.h>

#include "gpu/cuda/kernels.hpp"

namespace tutti::cuda {

struct Queue {
  int device;
  cudaStream_t stream;
};

}  // namespace tutti::cuda
