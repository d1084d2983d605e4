#pragma once

#include <vector>

namespace tutti {

/// The smallest value that at least `percent` % of `values` do not exceed (nearest rank); 0 when there are
/// none.
[[nodiscard]] double percentile(std::vector<double> values, double percent);

struct Percentiles {
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
};
[[nodiscard]] Percentiles percentiles(const std::vector<double>& values);

}  // namespace tutti
