#pragma once

#include <atomic>
#include <concepts>
#include <forward_list>
#include <utility>

namespace tutti {

/// A small value that is now and then replaced as a whole, while any thread reads it. What it was before is
/// kept, so that whoever reads it needs no lock: it should change as seldom as somebody wants it to.
template <class T>
class Published {
 public:
  explicit Published(T value) { set(std::move(value)); }
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;

  /// What was published last. Stays as it is, for as long as this.
  [[nodiscard]] const T& get() const { return *current_.load(std::memory_order_acquire); }
  /// From one thread at a time.
  void set(T value) {
    if constexpr (std::equality_comparable<T>) {
      const T* const before = current_.load(std::memory_order_relaxed);
      if (before != nullptr && *before == value) return;
    }
    current_.store(&values_.emplace_front(std::move(value)), std::memory_order_release);
  }

 private:
  std::forward_list<T> values_;
  std::atomic<const T*> current_{nullptr};
};

}  // namespace tutti
