#include <cuda_runtime_api.h>

#include <cstdio>

#include "gpu/cuda/layer_norm.hpp"
#include "gpu/cuda/plugin_api.hpp"

namespace tutti::cuda {
namespace {

/// The architecture of the oldest GPU that the kernels are built for.
constexpr int least_major = 8;

void explain(cudaError_t error, char* reason, size_t size) {
  int driver = 0;
  int runtime = 0;
  if (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess &&
      cudaRuntimeGetVersion(&runtime) == cudaSuccess) {
    if (driver == 0) {
      std::snprintf(reason, size, "no NVIDIA driver is installed (libcuda.so.1 was not found)");
    } else {
      std::snprintf(reason, size, "the NVIDIA driver supports CUDA %d.%d, and %d.%d is needed", driver / 1000,
                    driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    }
  } else if (error == cudaErrorNoDevice) {
    std::snprintf(reason, size, "the NVIDIA driver sees no GPU");
  } else {
    std::snprintf(reason, size, "the NVIDIA driver says: %s", cudaGetErrorString(error));
  }
}

int device_count(char* reason, size_t size) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    explain(error, reason, size);
    return 0;
  }
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    if (const cudaError_t failed = cudaGetDeviceProperties(&properties, device); failed != cudaSuccess) {
      explain(failed, reason, size);
      return 0;
    }
    if (properties.major < least_major) {
      std::snprintf(reason, size,
                    "GPU %d (%s) has compute capability %d.%d, and %d.0 is needed; CUDA_VISIBLE_DEVICES can "
                    "leave it out",
                    device, properties.name, properties.major, properties.minor, least_major);
      return 0;
    }
  }
  return count;
}

const char* error_text(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

int allocate(int device, size_t bytes, void** memory) {
  *memory = nullptr;
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return error;
  if (const cudaError_t error = cudaMalloc(memory, bytes); error != cudaSuccess) return error;
  return cudaMemset(*memory, 0, bytes);
}

void release(int device, void* memory) {
  // Nobody is left to tell about a failure: the memory goes with the context.
  if (cudaSetDevice(device) == cudaSuccess) static_cast<void>(cudaFree(memory));
}

int upload(int device, const void* host, size_t bytes, void* memory) {
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return error;
  return cudaMemcpy(memory, host, bytes, cudaMemcpyHostToDevice);
}

int download(int device, const void* memory, size_t bytes, void* host) {
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return error;
  return cudaMemcpy(host, memory, bytes, cudaMemcpyDeviceToHost);
}

int layer_norm_on(int device, const float* x, int64_t rows, int64_t cols, const float* gamma,
                  const float* beta, float eps, float* y) {
  if (const cudaError_t error = cudaSetDevice(device); error != cudaSuccess) return error;
  return layer_norm(x, rows, cols, gamma, beta, eps, y);
}

constexpr PluginApi api{.abi_version = plugin_abi_version,
                        .operations = "layer_norm",
                        .device_count = device_count,
                        .error_text = error_text,
                        .allocate = allocate,
                        .release = release,
                        .upload = upload,
                        .download = download,
                        .layer_norm = layer_norm_on};

}  // namespace
}  // namespace tutti::cuda

extern "C" __attribute__((visibility("default"))) const tutti::cuda::PluginApi* tutti_cuda_plugin(
    int abi_version) {
  return abi_version == tutti::cuda::plugin_abi_version ? &tutti::cuda::api : nullptr;
}
