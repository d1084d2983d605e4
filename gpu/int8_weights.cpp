#include "gpu/int8_weights.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tutti {
namespace {

/// NaN when a weight is not finite.
float largest_quad(std::span<const float> weights) {
  float largest = 0;
  float sum_of_all = 0;
  for (size_t group = 0; group < weights.size(); group += code_group) {
    std::array<float, 2> quads{};
    const size_t end = std::min(group + code_group, weights.size());
    for (size_t k = group; k < end; ++k) quads[(k - group) / 2 % 2] += std::abs(weights[k]);
    sum_of_all += quads[0] + quads[1];
    largest = std::max({largest, quads[0], quads[1]});
  }
  return std::isfinite(sum_of_all) ? largest : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

float quantize_weights(std::span<const float> weights, std::span<int8_t> codes) {
  // Rounding adds half a step to each of a quad's four at most.
  constexpr float steps = max_quad_magnitude - 2;
  const float scale = largest_quad(weights) / steps;
  // Below, its reciprocal would overflow.
  constexpr float smallest = 1e-35F;
  if (!(scale >= smallest)) {
    std::ranges::fill(codes, int8_t{0});
    return std::isnan(scale) ? scale : 0.0F;
  }
  const float inverse = 1 / scale;
  std::ranges::transform(weights, codes.begin(),
                         [&](float w) { return static_cast<int8_t>(std::nearbyint(w * inverse)); });
  return scale;
}

}  // namespace tutti
