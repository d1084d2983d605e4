#include "gpu/cpu/indexing.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace tutti::cpu {

namespace {

/// A tensor as (outer, n, inner), n the extent of one axis, in bytes.
class Entries {
 public:
  Entries(const TensorView& tensor, int axis) : data_(tensor.data), n_(tensor.shape[axis]) {
    for (int i = 0; i < axis; ++i) outer_ *= tensor.shape[i];
    auto inner = static_cast<int64_t>(size_of(tensor.dtype));
    for (int i = axis + 1; i < tensor.shape.rank(); ++i) inner *= tensor.shape[i];
    inner_bytes_ = static_cast<size_t>(inner);
  }
  [[nodiscard]] int64_t outer() const { return outer_; }
  [[nodiscard]] int64_t size() const { return n_; }
  [[nodiscard]] size_t inner_bytes() const { return inner_bytes_; }
  [[nodiscard]] std::byte* at(int64_t outer, int64_t index) const {
    assert(index >= 0 && index < n_);
    return data_ + static_cast<size_t>(outer * n_ + index) * inner_bytes_;
  }

 private:
  std::byte* data_;
  int64_t outer_ = 1;
  int64_t n_;
  size_t inner_bytes_;
};

}  // namespace

void index_select(const TensorView& tensor, int axis, std::span<const int32_t> indices,
                  const TensorView& out) {
  const Entries from(tensor, axis);
  const Entries to(out, axis);
  assert(out.dtype == tensor.dtype && to.size() == static_cast<int64_t>(indices.size()) &&
         to.outer() == from.outer() && to.inner_bytes() == from.inner_bytes());
  for (int64_t outer = 0; outer < from.outer(); ++outer) {
    for (size_t i = 0; i < indices.size(); ++i) {
      std::copy_n(from.at(outer, indices[i]), from.inner_bytes(), to.at(outer, static_cast<int64_t>(i)));
    }
  }
}

void index_copy(const TensorView& values, int axis, std::span<const int32_t> indices,
                const TensorView& tensor) {
  const Entries from(values, axis);
  const Entries to(tensor, axis);
  assert(values.dtype == tensor.dtype && from.size() == static_cast<int64_t>(indices.size()) &&
         from.outer() == to.outer() && from.inner_bytes() == to.inner_bytes());
  for (int64_t outer = 0; outer < to.outer(); ++outer) {
    for (size_t i = 0; i < indices.size(); ++i) {
      std::copy_n(from.at(outer, static_cast<int64_t>(i)), to.inner_bytes(), to.at(outer, indices[i]));
    }
  }
}

void index_fill(const TensorView& tensor, int axis, std::span<const int32_t> indices, double value) {
  const Entries entries(tensor, axis);
  assert(value == 0 || tensor.dtype == DType::f32 || tensor.dtype == DType::i32);
  for (int64_t outer = 0; outer < entries.outer(); ++outer) {
    for (const int32_t index : indices) {
      std::byte* const entry = entries.at(outer, index);
      const size_t elements = entries.inner_bytes() / size_of(tensor.dtype);
      if (tensor.dtype == DType::f32) {
        std::fill_n(reinterpret_cast<float*>(entry), elements, static_cast<float>(value));
      } else if (tensor.dtype == DType::i32) {
        std::fill_n(reinterpret_cast<int32_t*>(entry), elements, static_cast<int32_t>(value));
      } else {
        std::fill_n(entry, entries.inner_bytes(), std::byte{});
      }
    }
  }
}

void mean_of_rows(const TensorView& x, std::span<const int32_t> rows, int group, const TensorView& means) {
  assert(means.shape.elements() == static_cast<int64_t>(rows.size()));
  const int64_t count = group * x.cols();
  for (size_t i = 0; i < rows.size(); ++i) {
    const float* const values = x[rows[i]].f32();
    means.f32()[i] = std::accumulate(values, values + count, 0.0F) / static_cast<float>(count);
  }
}

}  // namespace tutti::cpu
