#include "gpu/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "config/result.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/cuda/cuda_ops.hpp"
#include "gpu/cuda/staging.hpp"

namespace tutti {
namespace {

/// The N of "cuda:N".
std::optional<int> gpu_index(std::string_view device) {
  constexpr std::string_view prefix = "cuda:";
  if (!device.starts_with(prefix)) return std::nullopt;
  device.remove_prefix(prefix.size());
  unsigned index = 0;
  const auto [end, error] = std::from_chars(device.data(), device.data() + device.size(), index);
  if (error != std::errc() || end != device.data() + device.size() || index > 1023) return std::nullopt;
  return static_cast<int>(index);
}

/// Each N of "cuda:N,cuda:N"; nothing where it is not so.
std::vector<int> gpu_indices(std::string_view devices) {
  std::vector<int> indices;
  for (bool more = true; more;) {
    const size_t comma = devices.find(',');
    const std::optional<int> index = gpu_index(devices.substr(0, comma));
    if (!index) return {};
    if (std::ranges::find(indices, *index) != indices.end()) {
      throw SetupError(fmt::format("device cuda:{} is named twice: a GPU has one owner", *index));
    }
    indices.push_back(*index);
    more = comma != std::string_view::npos;
    devices.remove_prefix(more ? comma + 1 : devices.size());
  }
  return indices;
}

SetupError unusable(std::string_view device, std::string_view why) {
  return SetupError(fmt::format("device {} cannot be used: {}", device, why));
}

/// The plugin, if it has that GPU.
CudaPlugin require_gpu(const CudaLoader& load, int index) {
  const std::string name = fmt::format("cuda:{}", index);
  const Result<CudaPlugin> plugin = load();
  if (!plugin) throw unusable(name, plugin.error().message);
  if (index < plugin->devices()) return *plugin;
  throw unusable(name, plugin->devices() == 1
                           ? "the NVIDIA driver has one GPU, 0"
                           : fmt::format("the NVIDIA driver has GPUs 0 to {}", plugin->devices() - 1));
}

std::vector<Device> all_gpus(const CudaPlugin& plugin) {
  std::vector<Device> gpus;
  for (int i = 0; i < plugin.devices(); ++i) gpus.push_back({Device::Kind::cuda, i});
  return gpus;
}

cuda::MatrixType matrix_type(WeightType weights) {
  switch (weights) {
    case WeightType::bf16:
      return cuda::MatrixType::bf16;
    case WeightType::fp16:
      return cuda::MatrixType::f16;
    case WeightType::int8:
      return cuda::MatrixType::int8;
    case WeightType::fp8:
      return cuda::MatrixType::f8e4m3;
    case WeightType::fp32:
      break;
  }
  return cuda::MatrixType::f32;
}

std::unique_ptr<Ops> open_cpu(WeightType weights) {
  if (weights == WeightType::fp16 || weights == WeightType::fp8) {
    throw SetupError(fmt::format("weights {} are not for a CPU: fp32, bf16 and int8 are accepted",
                                 weight_type_name(weights)));
  }
  return make_cpu_ops(cpu::GemmChoice::automatic, weights);
}

std::unique_ptr<Ops> open_gpu(const cuda::PluginApi& api, const Device& device, WeightType weights) {
  const cuda::MatrixType type = matrix_type(weights);
  int can = 0;
  cuda::check(api, api.kernels.can_multiply(device.index, type, &can), "tell what it multiplies");
  if (can == 0) {
    throw SetupError(
        fmt::format("weights {} are not for {}, which is older than compute capability 8.9: fp32, bf16, fp16 "
                    "and int8 are accepted",
                    weight_type_name(weights), to_string(device)));
  }
  return make_cuda_ops(api, device.index, type);
}

std::vector<Device> cpu_devices(int owners) {
  std::vector<Device> devices;
  for (int i = 0; i < owners; ++i) devices.push_back({Device::Kind::cpu, i});
  return devices;
}

}  // namespace

std::string to_string(const Device& device) {
  return fmt::format("{}:{}", device.kind == Device::Kind::cpu ? "cpu" : "cuda", device.index);
}

Result<CudaPlugin> load_cuda() {
  // Once: it asks every GPU what it can do, which takes long.
  static const Result<CudaPlugin> loaded = CudaPlugin::load();
  return loaded;
}

std::vector<Device> select_devices(std::string_view device, int cpu_owners, std::string& note,
                                   const CudaLoader& load) {
  if (device == "cpu") return cpu_devices(cpu_owners);
  if (device == "auto") {
    const Result<CudaPlugin> plugin = load();
    if (plugin) return all_gpus(*plugin);
    note = fmt::format("running on the CPU: {}", plugin.error().message);
    return cpu_devices(cpu_owners);
  }
  if (device == "cuda:all") {
    const Result<CudaPlugin> plugin = load();
    if (!plugin) throw unusable(device, plugin.error().message);
    return all_gpus(*plugin);
  }
  std::vector<Device> gpus;
  for (const int index : gpu_indices(device)) {
    static_cast<void>(require_gpu(load, index));
    gpus.push_back({Device::Kind::cuda, index});
  }
  if (!gpus.empty()) return gpus;
  throw SetupError(
      fmt::format("device \"{}\" is not known: cpu, cuda:N (the GPU with that number), several of these "
                  "(cuda:0,cuda:1), cuda:all and auto are accepted",
                  device));
}

std::unique_ptr<Ops> open_device(const Device& device, WeightType weights, const CudaLoader& load) {
  if (device.kind == Device::Kind::cpu) return open_cpu(weights);
  return open_gpu(require_gpu(load, device.index).api(), device, weights);
}

DeviceMemory device_memory(const Device& gpu, const CudaLoader& load) {
  const CudaPlugin plugin = require_gpu(load, gpu.index);
  size_t free = 0;
  size_t total = 0;
  cuda::check(plugin.api(), plugin.api().memory(gpu.index, &free, &total), "tell its memory");
  return {.free = static_cast<int64_t>(free), .total = static_cast<int64_t>(total)};
}

GpuDescription describe_gpu(const Device& gpu, const CudaLoader& load) {
  const CudaPlugin plugin = require_gpu(load, gpu.index);
  cuda::GpuInfo info{};
  cuda::check(plugin.api(), plugin.api().describe(gpu.index, &info), "tell what it is");
  const auto cuda_version = [](int version) {
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  };
  return {.name = info.name,
          .compute = fmt::format("{}.{}", info.compute_major, info.compute_minor),
          .driver = cuda_version(info.driver_version),
          .runtime = cuda_version(info.runtime_version)};
}

}  // namespace tutti
