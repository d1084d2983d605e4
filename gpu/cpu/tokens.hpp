#pragma once

#include <cstdint>
#include <span>

#include "gpu/tensor.hpp"

namespace tutti::cpu {

void embed_tokens(const TensorView& table, std::span<const int32_t> ids, const TensorView& positions,
                  std::span<const int32_t> at, const TensorView& out);
void pick(const TensorView& x, std::span<const int32_t> columns, std::span<float> values);

}  // namespace tutti::cpu
