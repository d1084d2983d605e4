#pragma once

#include <cstddef>
#include <span>

#include "gpu/ops.hpp"

namespace tutti::cpu {

/// Floats of scratch that the attentions need; it does not depend on the number of queries or keys. Keys are
/// taken in tiles with a running maximum and sum, and a tile that is stored in a narrow format is widened
/// there once for all queries of a lane.
[[nodiscard]] size_t decoder_attention_scratch_floats(int head_dim);

/// The operations of Ops by these names. `scratch` is 64-byte aligned for speed.
void append_decoder_kv(const BatchLayout& layout, const DecoderKv& kv, const TensorView& keys_values);
void decoder_self_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& qkv,
                            const TensorView& out, std::span<float> scratch);
void decoder_cross_attention(const BatchLayout& layout, const DecoderKv& kv, const TensorView& queries,
                             const TensorView& out, std::span<float> scratch);

}  // namespace tutti::cpu
