#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

namespace tutti {

enum class DType : uint8_t { f32, bf16, f8e4m3, i8, i32 };

[[nodiscard]] constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f8e4m3:
    case DType::i8:
      return 1;
    case DType::bf16:
      return 2;
    case DType::f32:
    case DType::i32:
      break;
  }
  return 4;
}

/// Up to five extents, outermost first.
class Shape {
 public:
  static constexpr size_t max_rank = 5;
  Shape() = default;
  Shape(std::initializer_list<int64_t> extents) {
    assert(extents.size() <= extents_.size());
    for (int64_t e : extents) extents_[rank_++] = e;
  }
  explicit Shape(std::span<const int64_t> extents) {
    assert(extents.size() <= extents_.size());
    for (int64_t e : extents) extents_[rank_++] = e;
  }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int64_t operator[](int axis) const { return extents_[axis]; }
  [[nodiscard]] int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= extents_[i];
    return n;
  }
  /// The shape of one entry of the outermost axis.
  [[nodiscard]] Shape tail() const {
    Shape s;
    for (int i = 1; i < rank_; ++i) s.extents_[s.rank_++] = extents_[i];
    return s;
  }
  [[nodiscard]] Shape with_first(int64_t extent) const {
    Shape s = *this;
    s.extents_[0] = extent;
    return s;
  }
  /// With an axis of `extent` put before axis `axis`; axis = rank() appends it.
  [[nodiscard]] Shape with_axis(int axis, int64_t extent) const {
    assert(axis >= 0 && axis <= rank_ && rank_ < static_cast<int>(max_rank));
    Shape s = *this;
    for (int i = rank_; i > axis; --i) s.extents_[i] = s.extents_[i - 1];
    s.extents_[axis] = extent;
    ++s.rank_;
    return s;
  }
  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, max_rank> extents_{};
  int rank_ = 0;
};

/// "2x80" for messages.
[[nodiscard]] std::string to_string(const Shape& shape);

/// Contiguous, row-major, non-owning. Like std::span, constness is not deep: an operation says in its comment
/// which of its views it writes.
struct TensorView {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  template <class T>
  [[nodiscard]] T* as() const {
    static_assert(sizeof(T) <= 4);
    assert(sizeof(T) == size_of(dtype));
    return reinterpret_cast<T*>(data);
  }
  [[nodiscard]] float* f32() const { return as<float>(); }
  [[nodiscard]] int32_t* i32() const { return as<int32_t>(); }
  [[nodiscard]] size_t bytes() const { return static_cast<size_t>(shape.elements()) * size_of(dtype); }
  [[nodiscard]] int64_t rows() const { return shape[0]; }
  [[nodiscard]] int64_t cols() const { return shape[1]; }
  /// Entry i of the outermost axis.
  [[nodiscard]] TensorView operator[](int64_t i) const {
    const Shape inner = shape.tail();
    return {data + static_cast<size_t>(i * inner.elements()) * size_of(dtype), dtype, inner};
  }
  /// Entries [begin, begin + count) of the outermost axis.
  [[nodiscard]] TensorView slice(int64_t begin, int64_t count) const {
    return {(*this)[begin].data, dtype, shape.with_first(count)};
  }
};

/// Owning, 64-byte aligned, zeroed at construction, move-only. Made by Ops::allocate, which knows the device.
class Tensor {
 public:
  using Release = void (*)(std::byte*);
  Tensor() = default;
  Tensor(std::byte* data, Release release, DType dtype, const Shape& shape)
      : data_(data, release), dtype_(dtype), shape_(shape) {}
  [[nodiscard]] TensorView view() const { return {data_.get(), dtype_, shape_}; }
  operator TensorView() const { return view(); }  // NOLINT(google-explicit-constructor): a tensor is its view
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] size_t bytes() const { return view().bytes(); }

 private:
  std::unique_ptr<std::byte, Release> data_{nullptr, nullptr};
  DType dtype_ = DType::f32;
  Shape shape_;
};

/// Host memory. Throws std::bad_alloc.
[[nodiscard]] Tensor host_tensor(DType dtype, const Shape& shape);
/// Host f32 tensor with a copy of `values`; their number must be shape.elements().
[[nodiscard]] Tensor host_tensor(const Shape& shape, std::span<const float> values);

}  // namespace tutti
