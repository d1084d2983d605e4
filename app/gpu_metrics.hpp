#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <functional>
#include <utility>
#include <vector>

#include "gpu/device.hpp"

namespace tutti {

/// A GPU that owners compute on.
struct ServingGpu {
  Device device;
  GpuDescription description;
};
/// Those among the devices. Throws SetupError where one does not say what it is.
[[nodiscard]] std::vector<ServingGpu> describe_gpus(const std::vector<Device>& devices);

/// What they are and how full their memory is, as far as they tell: tutti_device_info and
/// tutti_device_memory_bytes. Nothing without GPUs.
class GpuMetrics final : public prometheus::Collectable {
 public:
  /// Called by any thread.
  using AskMemory = std::function<DeviceMemory(const Device&)>;
  explicit GpuMetrics(
      std::vector<ServingGpu> gpus, AskMemory memory = [](const Device& gpu) { return device_memory(gpu); })
      : gpus_(std::move(gpus)), memory_(std::move(memory)) {}
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  std::vector<ServingGpu> gpus_;
  AskMemory memory_;
};

}  // namespace tutti
