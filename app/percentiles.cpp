#include "app/percentiles.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tutti {

double percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  const auto size = static_cast<double>(values.size());
  const double rank = std::clamp(std::ceil(percent * size / 100), 1.0, size);
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(rank) - 1;
  std::ranges::nth_element(values, nth);
  return *nth;
}

Percentiles percentiles(const std::vector<double>& values) {
  return {percentile(values, 50), percentile(values, 95), percentile(values, 99)};
}

}  // namespace tutti
