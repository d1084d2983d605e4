#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

namespace tutti::cpu {

/// What memory is mapped in. Weights that are read from end to end in every tick miss the TLB less in huge
/// pages; memory of which only a part is ever used had better be in small ones.
enum class Pages : uint8_t { small, huge };

struct FreeAligned {
  std::align_val_t alignment{};
  void operator()(void* data) const noexcept { ::operator delete(data, alignment); }
};
using AlignedMemory = std::unique_ptr<void, FreeAligned>;

/// Starts on a cache line; in huge pages, if they are asked for, filled by it and had from the system, on one
/// of theirs. Throws std::bad_alloc.
[[nodiscard]] AlignedMemory allocate_aligned(size_t bytes, Pages pages);

/// A fixed number of values on cache-line boundaries, not initialised: pages that are never used cost
/// nothing.
template <class T>
class AlignedArray {
 public:
  AlignedArray() = default;
  /// Throws std::bad_alloc.
  explicit AlignedArray(size_t size, Pages pages = Pages::small)
      : memory_(allocate_aligned(size * sizeof(T), pages)), size_(size) {}
  [[nodiscard]] T* data() const { return static_cast<T*>(memory_.get()); }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] std::span<T> span() const { return {data(), size_}; }

 private:
  AlignedMemory memory_;
  size_t size_ = 0;
};

using AlignedBuffer = AlignedArray<float>;

}  // namespace tutti::cpu
