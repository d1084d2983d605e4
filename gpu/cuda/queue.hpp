#pragma once

#include <cuda_runtime_api.h>

#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/recording.hpp"

namespace tutti::cuda {

struct Queue {
  int device;
  cudaStream_t stream;
  Recording recording{};
};

}  // namespace tutti::cuda
