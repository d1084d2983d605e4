#pragma once

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <string>
#include <vector>

namespace tutti {

/// What a process counts of its cluster, by the names of docs/metrics.md. From any thread.
class ClusterMetrics final : public prometheus::Collectable {
 public:
  ClusterMetrics();

  // As a gateway.

  void engine_joined() { joined_engines_.Increment(); }
  void engine_lost() { lost_engines_.Increment(); }
  void engine_refused() { refused_engines_.Increment(); }
  /// Of the engine at an address; none is an engine that is not there.
  void engine_places(const std::string& address, int places);

  // As an engine.

  void gateway_joined() { gateways_.Increment(); }
  void gateway_left() { gateways_.Decrement(); }
  void gateway_refused() { refused_gateways_.Increment(); }
  /// A frame of a stream that has ended or never was.
  void frame_ignored() { ignored_frames_.Increment(); }
  /// One that cannot be decoded.
  void frame_broken() { broken_frames_.Increment(); }

  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override { return registry_.Collect(); }

 private:
  prometheus::Registry registry_;
  prometheus::Counter& joined_engines_;
  prometheus::Counter& lost_engines_;
  prometheus::Counter& refused_engines_;
  prometheus::Family<prometheus::Gauge>& engine_places_;
  prometheus::Gauge& gateways_;
  prometheus::Counter& refused_gateways_;
  prometheus::Counter& ignored_frames_;
  prometheus::Counter& broken_frames_;
};

}  // namespace tutti
