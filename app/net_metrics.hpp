#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "net/callback_sender.hpp"
#include "net/stats.hpp"

namespace tutti {

/// The network's counters as metrics: tutti_net_*.
class NetMetrics final : public prometheus::Collectable {
 public:
  /// `stats` outlives every scrape.
  explicit NetMetrics(const NetStats& stats) : stats_(stats) {}
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const NetStats& stats_;
};

/// A callback's counters: tutti_callback_*.
class CallbackMetrics final : public prometheus::Collectable {
 public:
  /// `stats` outlives this.
  explicit CallbackMetrics(const CallbackStats& stats) : stats_(stats) {}
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const CallbackStats& stats_;
};

}  // namespace tutti
