#include "model/bfloat16.hpp"

#include <algorithm>

namespace tutti {

Tensor narrow_to_bfloat16(const TensorView& values) {
  Tensor narrow = host_tensor(DType::bf16, values.shape);
  std::transform(values.f32(), values.f32() + values.shape.elements(), narrow.view().as<uint16_t>(),
                 to_bfloat16);
  return narrow;
}

Tensor widen_to_float(const TensorView& values) {
  Tensor wide = host_tensor(DType::f32, values.shape);
  const auto* bits = values.as<uint16_t>();
  std::transform(bits, bits + values.shape.elements(), wide.view().f32(), from_bfloat16);
  return wide;
}

}  // namespace tutti
