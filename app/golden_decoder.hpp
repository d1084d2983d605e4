#pragma once

#include "gpu/device.hpp"
#include "model/conformer.hpp"
#include "model/safetensors.hpp"

namespace tutti {

/// Adds to `computed` what a golden file holds of attention decoders: what they are fed and say of stored
/// hypotheses (`U.dec.*`), token by token, and what rescoring makes of those (`U.resc.cwNN_rwNN.*`) and of
/// the n-best lists that were computed (`U.pipe.cC_lL.resc.cwNN_rwNN.*`), against the encoder output that was
/// computed of the whole utterance, or, where none is stored, of its stream in chunks of 16 with 4 to the
/// left. Nothing is added for a model without decoders. `device` computes.
void recompute_decoders(const ConformerCtc& model, const TensorMap& golden, const Device& device,
                        TensorMap& computed);

/// Tokens of the longest hypothesis that this needs decoders for; 0 when it needs none.
[[nodiscard]] int golden_hypothesis_tokens(const TensorMap& golden);

/// The largest difference of two results `U.dec.*_log_probs` where they are results: in the rows up to each
/// hypothesis' length. What lies beyond belongs to padding.
[[nodiscard]] double decoder_difference(const TensorView& a, const TensorView& b, const TensorView& lengths);

}  // namespace tutti
