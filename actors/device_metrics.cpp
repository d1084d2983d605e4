#include "actors/device_metrics.hpp"

#include <utility>

namespace tutti {
namespace {

prometheus::Counter* counter(prometheus::Registry& registry, const char* name, const char* help,
                             const prometheus::Labels& labels) {
  return &prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
}

prometheus::Gauge* gauge(prometheus::Registry& registry, const char* name, const char* help,
                         const prometheus::Labels& labels) {
  return &prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
}

constexpr const char* forwards_name = "tutti_device_forwards_total";
constexpr const char* forwards_help = "Forward passes, launched as a graph or operation by operation";

}  // namespace

DeviceMetrics::DeviceMetrics(prometheus::Registry& registry, const std::string& device)
    : seconds_(counter(registry, "tutti_device_seconds_total", "Time that a GPU was busy with ticks",
                       {{"device", device}})),
      waits_(counter(registry, "tutti_device_waits_total", "Times that an owner waited for its GPU",
                     {{"device", device}})),
      allocations_(counter(registry, "tutti_device_allocations_total",
                           "Allocations of GPU or pinned memory since the start", {{"device", device}})),
      graph_forwards_(
          counter(registry, forwards_name, forwards_help, {{"device", device}, {"how", "graph"}})),
      eager_forwards_(
          counter(registry, forwards_name, forwards_help, {{"device", device}, {"how", "eager"}})),
      snapshots_(gauge(registry, "tutti_device_snapshots", "Snapshots on their way out of a GPU",
                       {{"device", device}})),
      snapshot_bytes_(
          gauge(registry, "tutti_device_snapshot_bytes", "Bytes of these snapshots", {{"device", device}})),
      postponed_snapshots_(counter(registry, "tutti_device_postponed_snapshots_total",
                                   "Times that a snapshot waited for others to leave a GPU",
                                   {{"device", device}})) {}

DeviceMetrics::DeviceMetrics(DeviceMetrics&& other) noexcept
    : seconds_(other.seconds_),
      waits_(other.waits_),
      allocations_(other.allocations_),
      graph_forwards_(other.graph_forwards_),
      eager_forwards_(other.eager_forwards_),
      snapshots_(other.snapshots_),
      snapshot_bytes_(other.snapshot_bytes_),
      postponed_snapshots_(other.postponed_snapshots_),
      shown_snapshots_(std::exchange(other.shown_snapshots_, 0)),
      shown_bytes_(std::exchange(other.shown_bytes_, 0)) {}

void DeviceMetrics::tick(const EngineStats& before, const EngineStats& after) {
  const DeviceUse& was = before.device;
  const DeviceUse& is = after.device;
  seconds_->Increment(is.seconds - was.seconds);
  waits_->Increment(static_cast<double>(is.waits - was.waits));
  allocations_->Increment(static_cast<double>(is.allocations - was.allocations));
  graph_forwards_->Increment(static_cast<double>(is.repeats - was.repeats));
  eager_forwards_->Increment(static_cast<double>(is.eager - was.eager));
  snapshots(after);
}

void DeviceMetrics::show_snapshots(int snapshots, int64_t bytes) {
  snapshots_->Increment(snapshots - std::exchange(shown_snapshots_, snapshots));
  snapshot_bytes_->Increment(static_cast<double>(bytes - std::exchange(shown_bytes_, bytes)));
}

}  // namespace tutti
