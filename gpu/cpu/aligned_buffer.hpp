#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace tutti::cpu {

/// A fixed number of values on cache-line boundaries, not initialised: pages that are never used cost
/// nothing.
template <class T>
class AlignedArray {
 public:
  AlignedArray() = default;
  /// Throws std::bad_alloc.
  explicit AlignedArray(size_t size)
      : data_(static_cast<T*>(::operator new(size * sizeof(T), alignment))), size_(size) {}
  [[nodiscard]] T* data() const { return data_.get(); }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] std::span<T> span() const { return {data_.get(), size_}; }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Release {
    void operator()(T* data) const { ::operator delete(data, alignment); }
  };
  std::unique_ptr<T[], Release> data_;
  size_t size_ = 0;
};

using AlignedBuffer = AlignedArray<float>;

}  // namespace tutti::cpu
