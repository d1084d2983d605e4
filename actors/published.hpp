#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace tutti {

/// A value that is now and then replaced as a whole, while any thread reads it.
template <class T>
class Published {
 public:
  explicit Published(T value) : value_(std::make_shared<const T>(std::move(value))) {}
  /// What was published last; it stays as it is.
  [[nodiscard]] std::shared_ptr<const T> get() const { return value_.load(); }
  void set(T value) { value_.store(std::make_shared<const T>(std::move(value))); }

 private:
  std::atomic<std::shared_ptr<const T>> value_;
};

}  // namespace tutti
