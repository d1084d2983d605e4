#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <string>

#include "engine/engine.hpp"

namespace tutti {

/// What one owner asks of a device that computes beside it, by the names of docs/metrics.md. Owners of one
/// device add up.
class DeviceMetrics {
 public:
  DeviceMetrics(prometheus::Registry& registry, const std::string& device);
  DeviceMetrics(DeviceMetrics&& other) noexcept;
  DeviceMetrics& operator=(DeviceMetrics&&) = delete;
  ~DeviceMetrics() { show_snapshots(0, 0); }

  /// A tick, with its engine's counters before and after.
  void tick(const EngineStats& before, const EngineStats& after);
  void snapshots(const EngineStats& stats) {
    show_snapshots(stats.snapshots_under_way, stats.snapshot_bytes_under_way);
  }
  /// It waits for others to arrive.
  void snapshot_postponed() { postponed_snapshots_->Increment(); }

 private:
  void show_snapshots(int snapshots, int64_t bytes);

  prometheus::Counter* seconds_;
  prometheus::Counter* waits_;
  prometheus::Counter* allocations_;
  prometheus::Counter* graph_forwards_;
  prometheus::Counter* eager_forwards_;
  prometheus::Gauge* snapshots_;
  prometheus::Gauge* snapshot_bytes_;
  prometheus::Counter* postponed_snapshots_;
  int shown_snapshots_ = 0;
  int64_t shown_bytes_ = 0;
};

}  // namespace tutti
