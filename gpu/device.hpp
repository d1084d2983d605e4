#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"
#include "gpu/ops.hpp"
#include "gpu/plugin.hpp"
#include "gpu/weight_type.hpp"

namespace tutti {

/// A device that can be given an owner: one CPU core or one CUDA GPU.
struct Device {
  enum class Kind { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;
};

/// "cpu:0", "cuda:1".
[[nodiscard]] std::string to_string(const Device& device);

/// How the CUDA backend is found: CudaPlugin::load.
using CudaLoader = std::function<Result<CudaPlugin>()>;
[[nodiscard]] Result<CudaPlugin> load_cuda();

/// The devices that the configuration's `device` names: "cpu" (`cpu_owners` of them), "cuda:N", several of
/// these with commas between them, "cuda:all", or "auto" (all GPUs when there are any, else the CPU). `note`
/// receives one line for the log when a GPU was looked for and not found. Throws SetupError when an
/// explicitly named GPU cannot be used, or is named twice.
[[nodiscard]] std::vector<Device> select_devices(std::string_view device, int cpu_owners, std::string& note,
                                                 const CudaLoader& load = load_cuda);

/// What is packed there is stored as `weights`; every Ops of a kind of device computes with it. Throws
/// SetupError when the device cannot be opened, or does not multiply in that type.
[[nodiscard]] std::unique_ptr<Ops> open_device(const Device& device, WeightType weights = WeightType::fp32,
                                               const CudaLoader& load = load_cuda);

/// Bytes of a GPU's memory. Any thread; throws as open_device.
struct DeviceMemory {
  int64_t free = 0;
  int64_t total = 0;
};
[[nodiscard]] DeviceMemory device_memory(const Device& gpu, const CudaLoader& load = load_cuda);

/// What a GPU is, in words.
struct GpuDescription {
  std::string name;     ///< "NVIDIA H200"
  std::string compute;  ///< its compute capability, "9.0"
  std::string driver;   ///< the CUDA version that the driver supports, "13.0"
  std::string runtime;  ///< the one that the plugin is built with
};
/// Throws as open_device.
[[nodiscard]] GpuDescription describe_gpu(const Device& gpu, const CudaLoader& load = load_cuda);

}  // namespace tutti
