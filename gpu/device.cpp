#include "gpu/device.hpp"

#include <fmt/format.h>

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

/// The plugin, if it has that GPU.
CudaPlugin require_gpu(const CudaLoader& load, int index) {
  const auto refuse = [index](std::string_view why) {
    return SetupError(fmt::format("device cuda:{} cannot be used: {}", index, why));
  };
  const Result<CudaPlugin> plugin = load();
  if (!plugin) throw refuse(plugin.error().message);
  if (index >= plugin->devices()) {
    throw refuse(fmt::format("the NVIDIA driver has GPUs 0 to {}", plugin->devices() - 1));
  }
  return *plugin;
}

cuda::MatrixType matrix_type(WeightType weights) {
  if (weights == WeightType::fp32) return cuda::MatrixType::f32;
  if (weights == WeightType::bf16) return cuda::MatrixType::bf16;
  throw SetupError(fmt::format("weights {} cannot be held on a GPU: fp32 and bf16 are accepted",
                               weight_type_name(weights)));
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

Result<CudaPlugin> load_cuda() { return CudaPlugin::load(); }

std::vector<Device> select_devices(std::string_view device, int cpu_owners, std::string& note,
                                   const CudaLoader& load) {
  if (device == "cpu") return cpu_devices(cpu_owners);
  if (device == "auto") {
    const Result<CudaPlugin> plugin = load();
    if (plugin) return {{Device::Kind::cuda, 0}};
    note = fmt::format("running on the CPU: {}", plugin.error().message);
    return cpu_devices(cpu_owners);
  }
  if (const std::optional<int> index = gpu_index(device)) {
    static_cast<void>(require_gpu(load, *index));
    return {{Device::Kind::cuda, *index}};
  }
  throw SetupError(fmt::format(
      "device \"{}\" is not known: cpu, cuda:N (the GPU with that number) and auto are accepted", device));
}

std::unique_ptr<Ops> open_device(const Device& device, WeightType weights) {
  if (device.kind == Device::Kind::cpu) return make_cpu_ops(cpu::GemmChoice::automatic, weights);
  return make_cuda_ops(require_gpu(load_cuda, device.index).api(), device.index, matrix_type(weights));
}

int64_t free_device_memory(const Device& gpu) {
  const CudaPlugin plugin = require_gpu(load_cuda, gpu.index);
  size_t free = 0;
  size_t total = 0;
  cuda::check(plugin.api(), plugin.api().memory(gpu.index, &free, &total), "tell its memory");
  return static_cast<int64_t>(free);
}

}  // namespace tutti
