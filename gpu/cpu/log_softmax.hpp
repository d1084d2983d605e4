#pragma once

#include "gpu/tensor.hpp"

namespace tutti::cpu {

/// Log-softmax in place over logits (rows, V), and the k largest of each row, largest first, the smaller id
/// first among equals: ids (rows, k) i32, values (rows, k). 1 <= k <= V.
void log_softmax_top_k(const TensorView& logits, int k, const TensorView& ids, const TensorView& values);

}  // namespace tutti::cpu
