#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tutti::fuzz {

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The first line of `text`, without its end, which is taken off.
inline std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(line.size() < text.size() ? line.size() + 1 : line.size());
  return line;
}

/// Choices made by the bytes of an input, first to last; zeros when they are used up.
class Choices {
 public:
  explicit Choices(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool done() const { return bytes_.empty(); }
  [[nodiscard]] uint8_t byte() {
    const auto taken = take(1);
    return taken.empty() ? uint8_t{0} : std::to_integer<uint8_t>(taken[0]);
  }
  /// From 0 to `count` - 1; 1 <= count <= 256.
  [[nodiscard]] int pick(int count) { return byte() % count; }
  [[nodiscard]] uint64_t number() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8U | byte();
    return value;
  }
  /// At most `count` bytes.
  [[nodiscard]] std::span<const std::byte> take(size_t count) {
    const auto taken = bytes_.first(count < bytes_.size() ? count : bytes_.size());
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  [[nodiscard]] std::span<const std::byte> rest() { return take(bytes_.size()); }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace tutti::fuzz
