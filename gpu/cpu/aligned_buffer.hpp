#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace tutti::cpu {

/// A fixed number of floats on cache-line boundaries, not initialised: pages that are never used cost
/// nothing.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  /// Throws std::bad_alloc.
  explicit AlignedBuffer(size_t floats)
      : data_(static_cast<float*>(::operator new(floats * sizeof(float), alignment))), size_(floats) {}
  [[nodiscard]] float* data() const { return data_.get(); }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] std::span<float> span() const { return {data_.get(), size_}; }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Release {
    void operator()(float* data) const { ::operator delete(data, alignment); }
  };
  std::unique_ptr<float[], Release> data_;
  size_t size_ = 0;
};

}  // namespace tutti::cpu
