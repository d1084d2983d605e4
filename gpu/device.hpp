#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/ops.hpp"
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

/// The devices that the configuration's `device` names: "cpu" (`cpu_owners` of them), "cuda:N", or "auto" (a
/// GPU that can run the model when there is one, else the CPU). `note` receives one line for the log when a
/// GPU was looked for and not taken. Throws SetupError when an explicitly named GPU cannot be used.
[[nodiscard]] std::vector<Device> select_devices(std::string_view device, int cpu_owners, std::string& note);

/// What is packed there is stored as `weights`; every Ops of a kind of device computes with it. Throws
/// SetupError when the device cannot be opened.
[[nodiscard]] std::unique_ptr<Ops> open_device(const Device& device, WeightType weights = WeightType::fp32);

}  // namespace tutti
