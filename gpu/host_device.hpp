#pragma once

/// Marks what CPUs and CUDA kernels both run.
#ifdef __CUDACC__
#define TUTTI_HOST_DEVICE __host__ __device__
#else
#define TUTTI_HOST_DEVICE
#endif
