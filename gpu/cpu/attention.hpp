#pragma once

#include <cstddef>
#include <span>

#include "gpu/ops.hpp"

namespace tutti::cpu {

/// Floats of scratch that `paged_attention` needs; it does not depend on the number of keys, which are taken
/// in tiles with a running maximum and sum (Milakov and Gimelshein, "Online normalizer calculation for
/// softmax").
[[nodiscard]] size_t attention_scratch_floats(int head_dim);

/// Ops::paged_attention: writes the lanes' new K and V rows behind their history, then attends.
/// `scratch` is 64-byte aligned for speed. History and rows may have any length, also none.
void paged_attention(const BatchLayout& layout, const PagedKv& kv, const AttentionInputs& in,
                     const TensorView& out, std::span<float> scratch);

}  // namespace tutti::cpu
