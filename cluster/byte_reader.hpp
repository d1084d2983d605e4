#pragma once

#include <cstring>

#include "cluster/byte_writer.hpp"

namespace tutti::wire {

/// The fields of a frame, one after the other, as a ByteWriter wrote them. The first one that cannot be read
/// is remembered with the reason; from then on all are zero and empty, so that whoever reads may look at
/// fault() once, at the end. A list is allocated only when there are bytes enough for all of it.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, Clock::time_point now)
      : now_(now), rest_(bytes), size_(bytes.size()) {}

  template <Plain T>
  void number(std::string_view field, T& value) {
    value = T{};
    const auto bytes = take(sizeof(T), field);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(T));
  }
  template <Plain T>
  void number(std::string_view field, T& value, T least) {
    number(field, value);
    if (fault_.empty() && value < least) refuse_number(field, value, least);
    if (!fault_.empty()) value = least;
  }
  void flag(std::string_view field, bool& value) { value = byte_up_to(field, 1) == 1; }
  /// One of an enumeration that begins with 0.
  template <class T>
  requires std::is_enum_v<T>
  void choice(std::string_view field, T& value, T last) {
    value = static_cast<T>(byte_up_to(field, static_cast<uint8_t>(last)));
  }
  void text(std::string_view field, std::string& value);
  void moment(std::string_view field, Clock::time_point& moment);
  template <Plain T>
  void list(std::string_view field, std::vector<T>& items) {
    items.resize(count(field, sizeof(T)));
    const auto bytes = take(items.size() * sizeof(T), field);
    if (!bytes.empty()) std::memcpy(items.data(), bytes.data(), bytes.size());
  }
  /// Calls each(item) for items that take no less than so many bytes.
  template <class T, class Each>
  void list(std::string_view field, std::vector<T>& items, size_t least_bytes, Each&& each) {
    items.resize(count(field, least_bytes));
    for (T& item : items) each(item);
  }
  template <class T, class Each>
  void optional(std::string_view field, std::optional<T>& item, Each&& each) {
    item.reset();
    if (byte_up_to(field, 1) == 1) each(item.emplace(T{}));
  }

  /// Nothing may follow.
  void finish();
  void refuse(std::string_view field, std::string_view why);
  /// What could not be read, where, and why; empty when all could.
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  [[nodiscard]] std::span<const std::byte> take(size_t count, std::string_view field);
  [[nodiscard]] size_t count(std::string_view field, size_t least_bytes);
  [[nodiscard]] uint8_t byte_up_to(std::string_view field, uint8_t most);
  void refuse_number(std::string_view field, int64_t value, int64_t least);

  Clock::time_point now_;
  std::span<const std::byte> rest_;
  size_t size_;
  std::string fault_;
};

}  // namespace tutti::wire
