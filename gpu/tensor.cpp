#include "gpu/tensor.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

namespace tutti {
namespace {

constexpr std::align_val_t alignment{64};

void release_host(std::byte* data) { ::operator delete(data, alignment); }

}  // namespace

std::string to_string(const Shape& shape) {
  std::string text;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis > 0) text += 'x';
    text += std::to_string(shape[axis]);
  }
  return text.empty() ? "scalar" : text;
}

Tensor host_tensor(DType dtype, const Shape& shape) {
  const size_t bytes = static_cast<size_t>(shape.elements()) * size_of(dtype);
  auto* data = static_cast<std::byte*>(::operator new(bytes, alignment));
  std::memset(data, 0, bytes);
  return {data, release_host, dtype, shape};
}

Tensor host_tensor(const Shape& shape, std::span<const float> values) {
  if (static_cast<int64_t>(values.size()) != shape.elements()) {
    throw std::invalid_argument("a tensor of shape " + to_string(shape) + " takes " +
                                std::to_string(shape.elements()) + " values, not " +
                                std::to_string(values.size()));
  }
  Tensor tensor = host_tensor(DType::f32, shape);
  std::copy(values.begin(), values.end(), tensor.view().f32());
  return tensor;
}

}  // namespace tutti
