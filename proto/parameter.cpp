#include "proto/parameter.hpp"

#include <fmt/format.h>

#include <charconv>

namespace tutti::proto {

std::string shown(std::string_view value) {
  constexpr size_t longest = 40;
  if (value.size() <= longest) return fmt::format("\"{}\"", value);
  return fmt::format("\"{}...\"", value.substr(0, longest));
}

std::optional<int> parse_int(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> parse_flag(std::string_view text) {
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  return std::nullopt;
}

}  // namespace tutti::proto
