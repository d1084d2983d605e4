#pragma once

#include <cstdint>
#include <span>

namespace tutti {

/// Consecutive k that the CPU's kernels multiply at a time. Padding is zero.
constexpr int code_group = 8;

/// The largest sum of magnitudes of the four weights whose products with codes up to 255 may meet in 16 bits
/// before they are widened: k, k + 1, k + 4 and k + 5 of a group, for even k below 4.
constexpr int max_quad_magnitude = 128;
static_assert(255 * max_quad_magnitude <= INT16_MAX);

/// Rounds one output's weights to whole multiples of a scale, symmetrically, with the least scale for which
/// no quad is larger than max_quad_magnitude: integer products are then exact on every instruction set. Of
/// weights that are normally distributed the largest become about 60. Returns the scale: 0 when all weights
/// are, NaN when one is not finite. `codes` has as many entries as `weights`.
[[nodiscard]] float quantize_weights(std::span<const float> weights, std::span<int8_t> codes);

}  // namespace tutti
