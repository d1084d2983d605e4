#include "gpu/device.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "config/result.hpp"
#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/plugin.hpp"

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

/// Why no model can run on a GPU here, in one sentence: the plugin offers single kernels, not every operation
/// of Ops.
std::string gpu_refusal() {
  const Result<CudaPlugin> plugin = CudaPlugin::load();
  if (!plugin) return plugin.error().message;
  return fmt::format("the CUDA plugin computes {}, which is not all that a model needs",
                     plugin->api().operations);
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

std::vector<Device> select_devices(std::string_view device, int cpu_owners, std::string& note) {
  if (device == "cpu") return cpu_devices(cpu_owners);
  if (device == "auto") {
    note = fmt::format("running on the CPU: {}", gpu_refusal());
    return cpu_devices(cpu_owners);
  }
  if (gpu_index(device)) {
    throw SetupError(fmt::format("device {} cannot be used: {}", device, gpu_refusal()));
  }
  throw SetupError(fmt::format(
      "device \"{}\" is not known: cpu, cuda:N (the GPU with that number) and auto are accepted", device));
}

std::unique_ptr<Ops> open_device(const Device& device, WeightType weights) {
  if (device.kind == Device::Kind::cpu) return make_cpu_ops(cpu::GemmChoice::automatic, weights);
  throw SetupError(fmt::format("device {} cannot be used: {}", to_string(device), gpu_refusal()));
}

}  // namespace tutti
