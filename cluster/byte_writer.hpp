#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/clock.hpp"

namespace tutti::wire {

static_assert(std::endian::native == std::endian::little, "numbers are sent as this machine has them");

/// What is sent as it lies in memory.
template <class T>
concept Plain = (std::is_arithmetic_v<T> && !std::same_as<T, bool>) || std::same_as<T, std::byte>;

/// A moment further away cannot be told: 146 years.
inline constexpr int64_t longest_age = int64_t{1} << 62;
/// The age of Clock::time_point{}, which stands for no moment at all.
inline constexpr int64_t no_age = std::numeric_limits<int64_t>::min();

/// A frame on its way to bytes: numbers in little-endian order, lists behind their length, moments as ages.
/// ByteReader has the same members, so that one list of fields, written once, serves both; what only a reader
/// needs (names, limits) is ignored here.
class ByteWriter {
 public:
  explicit ByteWriter(Clock::time_point now) : now_(now) {}

  template <Plain T>
  void number(std::string_view /*field*/, T value) {
    append(std::as_bytes(std::span(&value, 1)));
  }
  template <Plain T>
  void number(std::string_view field, T value, T /*least*/) {
    number(field, value);
  }
  void flag(std::string_view field, bool value) { number(field, uint8_t{value}); }
  template <class T>
  requires std::is_enum_v<T>
  void choice(std::string_view field, T value, T /*last*/) { number(field, static_cast<uint8_t>(value)); }
  void text(std::string_view field, const std::string& value) {
    count(field, value.size());
    append(std::as_bytes(std::span(value)));
  }
  void moment(std::string_view field, Clock::time_point moment) {
    const auto age = std::chrono::duration_cast<std::chrono::nanoseconds>(now_ - moment).count();
    number(field, moment == Clock::time_point{} ? no_age : std::clamp(age, -longest_age, longest_age));
  }
  template <Plain T>
  void list(std::string_view field, const std::vector<T>& items) {
    count(field, items.size());
    append(std::as_bytes(std::span(items)));
  }
  /// Calls each(item).
  template <class T, class Each>
  void list(std::string_view field, std::span<const T> items, size_t /*least_bytes*/, Each&& each) {
    count(field, items.size());
    for (const T& item : items) each(item);
  }
  template <class T, class Each>
  void list(std::string_view field, const std::vector<T>& items, size_t least_bytes, Each&& each) {
    list(field, std::span<const T>(items), least_bytes, std::forward<Each>(each));
  }
  template <class T, class Each>
  void optional(std::string_view field, const std::optional<T>& item, Each&& each) {
    flag(field, item.has_value());
    if (item) each(*item);
  }

  void reserve(size_t bytes) { bytes_.reserve(bytes_.size() + bytes); }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void count(std::string_view field, size_t items) { number(field, static_cast<uint32_t>(items)); }
  void append(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

  Clock::time_point now_;
  std::vector<std::byte> bytes_;
};

}  // namespace tutti::wire
