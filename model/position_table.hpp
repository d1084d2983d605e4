#pragma once

#include <initializer_list>
#include <string>

#include "gpu/tensor.hpp"
#include "model/weights.hpp"

namespace tutti {

/// Where a checkpoint stores the encoder's table, if it does.
inline constexpr const char* encoder_position_table = "encoder.embed.pos_enc.pe";

/// Sinusoidal positions (rows, d) in float32 as WeNet makes them:
///   pe[p, 2i] = sin(p * w_i), pe[p, 2i+1] = cos(p * w_i), w_i = exp(2i * -(ln 10000 / d))
/// with the angle rounded to float32 before sin and cos. Rows that the checkpoint stores (1 x P x d, under
/// the first of `names` that it has) are taken from there: at position 4000 one unit in the last place of w_i
/// already moves log-probabilities by 1e-4.
[[nodiscard]] Tensor make_position_table(WeightMap& weights, std::initializer_list<std::string> names,
                                         int rows, int d);

}  // namespace tutti
