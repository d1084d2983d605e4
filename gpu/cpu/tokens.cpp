#include "gpu/cpu/tokens.hpp"

#include <cassert>

namespace tutti::cpu {

void embed_tokens(const TensorView& table, std::span<const int32_t> ids, const TensorView& positions,
                  std::span<const int32_t> at, const TensorView& out) {
  assert(static_cast<int64_t>(ids.size()) == out.rows() && ids.size() == at.size());
  const int64_t width = out.cols();
  for (int64_t row = 0; row < out.rows(); ++row) {
    const float* const token = table[ids[static_cast<size_t>(row)]].f32();
    const float* const position = positions[at[static_cast<size_t>(row)]].f32();
    float* const y = out[row].f32();
    for (int64_t i = 0; i < width; ++i) y[i] = token[i] + position[i];
  }
}

void pick(const TensorView& x, std::span<const int32_t> columns, std::span<float> values) {
  assert(static_cast<int64_t>(columns.size()) == x.rows() && columns.size() == values.size());
  for (size_t row = 0; row < columns.size(); ++row) {
    values[row] = x[static_cast<int64_t>(row)].f32()[columns[row]];
  }
}

}  // namespace tutti::cpu
