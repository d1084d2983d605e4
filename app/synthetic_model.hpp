#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/checkpoint.hpp"

namespace tutti {

/// Reads a model's size: "12x256x2048h4v5000" is 12 blocks of width 256 with 2048 feed-forward units, 4
/// attention heads and 5000 tokens. Throws SetupError saying what is accepted.
[[nodiscard]] ConformerSpec parse_model_size(std::string_view size);

/// A checkpoint with arbitrary weights, scaled so that activations neither fade nor grow: it costs what a
/// trained model of that size costs and says nothing sensible. The same spec gives the same weights.
[[nodiscard]] Checkpoint synthetic_checkpoint(const ConformerSpec& spec);

/// Noise with the rhythm and the rough spectrum of speech, in [-1, 1); other seeds are other speakers.
[[nodiscard]] std::vector<float> pseudo_speech(int sample_rate, int64_t samples, uint32_t seed);

}  // namespace tutti
