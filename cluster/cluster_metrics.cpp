#include "cluster/cluster_metrics.hpp"

namespace tutti {
namespace {

template <class Builder>
auto& family(Builder builder, prometheus::Registry& registry, const std::string& name,
             const std::string& help) {
  return builder.Name("tutti_cluster_" + name).Help(help).Register(registry);
}

prometheus::Counter& counter(prometheus::Registry& registry, const std::string& name,
                             const std::string& help) {
  return family(prometheus::BuildCounter(), registry, name, help).Add({});
}

}  // namespace

ClusterMetrics::ClusterMetrics()
    : joined_engines_(counter(registry_, "engine_joins_total", "Engines that joined this gateway")),
      lost_engines_(
          counter(registry_, "engine_losses_total", "Engines that were lost after they had joined")),
      refused_engines_(counter(registry_, "refused_engines_total",
                               "Engines that refused this gateway, or that it does not use")),
      engine_places_(family(prometheus::BuildGauge(), registry_, "engine_places",
                            "Streams that the owners of an engine can hold")),
      gateways_(
          family(prometheus::BuildGauge(), registry_, "gateways", "Gateways that use this engine").Add({})),
      refused_gateways_(counter(registry_, "refused_gateways_total", "Gateways that this engine refused")),
      ignored_frames_(counter(registry_, "ignored_frames_total", "Frames of streams that had ended")),
      broken_frames_(counter(registry_, "broken_frames_total", "Frames that could not be decoded")) {}

void ClusterMetrics::engine_places(const std::string& address, int places) {
  prometheus::Gauge& gauge = engine_places_.Add({{"engine", address}});
  gauge.Set(places);
  if (places == 0) engine_places_.Remove(&gauge);
}

}  // namespace tutti
