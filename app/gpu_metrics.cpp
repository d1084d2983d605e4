#include "app/gpu_metrics.hpp"

#include <exception>
#include <string>

namespace tutti {
namespace {

prometheus::ClientMetric gauge(std::vector<prometheus::ClientMetric::Label> labels, double value) {
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  metric.gauge.value = value;
  return metric;
}

}  // namespace

std::vector<ServingGpu> describe_gpus(const std::vector<Device>& devices) {
  std::vector<ServingGpu> gpus;
  for (const Device& device : devices) {
    if (device.kind == Device::Kind::cuda) gpus.push_back({device, describe_gpu(device)});
  }
  return gpus;
}

std::vector<prometheus::MetricFamily> GpuMetrics::Collect() const {
  if (gpus_.empty()) return {};
  prometheus::MetricFamily info{"tutti_device_info",
                                "1; what a GPU is, and the CUDA of driver and server",
                                prometheus::MetricType::Gauge,
                                {}};
  prometheus::MetricFamily memory{
      "tutti_device_memory_bytes", "Memory of a GPU, whoever uses it", prometheus::MetricType::Gauge, {}};
  for (const auto& [device, is] : gpus_) {
    const std::string name = to_string(device);
    info.metric.push_back(gauge({{"device", name},
                                 {"name", is.name},
                                 {"compute", is.compute},
                                 {"driver", is.driver},
                                 {"runtime", is.runtime}},
                                1));
    try {
      const DeviceMemory bytes = memory_(device);
      memory.metric.push_back(
          gauge({{"device", name}, {"state", "used"}}, static_cast<double>(bytes.total - bytes.free)));
      memory.metric.push_back(gauge({{"device", name}, {"state", "free"}}, static_cast<double>(bytes.free)));
    } catch (const std::exception&) {
      continue;  // it is lost, which its owner says
    }
  }
  return {info, memory};
}

}  // namespace tutti
