#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace tutti {

/// A decoder state on its way to bytes, for CtcDecoder::save_state. What is written here StateReader reads
/// in the same order, in the same program.
class StateWriter {
 public:
  template <class T>
  void value(const T& item) {
    values(std::span(&item, 1));
  }
  /// With their number.
  template <class T>
  void list(std::span<const T> items) {
    value(items.size());
    values(items);
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  template <class T>
  void values(std::span<const T> items) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto bytes = std::as_bytes(items);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

  std::vector<std::byte> bytes_;
};

/// Throws std::invalid_argument for bytes that end too early.
class StateReader {
 public:
  explicit StateReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  [[nodiscard]] T value() {
    T item;
    std::memcpy(&item, take(1, sizeof(T)).data(), sizeof(T));
    return item;
  }
  /// Replaces the items of `out`.
  template <class T>
  void list(std::vector<T>& out) {
    const auto count = value<size_t>();
    const auto bytes = take(count, sizeof(T));
    out.resize(count);
    if (count > 0) std::memcpy(out.data(), bytes.data(), bytes.size());
  }

 private:
  [[nodiscard]] std::span<const std::byte> take(size_t count, size_t size) {
    if (count > bytes_.size() / size) throw std::invalid_argument("a decoder state ends too early");
    const auto taken = bytes_.first(count * size);
    bytes_ = bytes_.subspan(count * size);
    return taken;
  }

  std::span<const std::byte> bytes_;
};

}  // namespace tutti
