#include "config/utf8.hpp"

#include <algorithm>
#include <cstdint>

namespace tutti {
namespace {

struct Lead {
  size_t length = 0;
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

// The second byte's range depends on the lead byte: that is what keeps out overlong forms and surrogates.
Lead classify(uint8_t lead) {
  if (lead < 0x80) return {1};
  if (lead < 0xC2) return {0};
  if (lead < 0xE0) return {2};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

/// Bytes of the well-formed sequence that `text` begins with; 0 when it begins with none.
size_t sequence_length(std::string_view text) {
  const Lead lead = classify(static_cast<uint8_t>(text[0]));
  if (lead.length > text.size()) return 0;
  for (size_t i = 1; i < lead.length; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? lead.second_min : uint8_t{0x80};
    const uint8_t high = i == 1 ? lead.second_max : uint8_t{0xBF};
    if (byte < low || byte > high) return 0;
  }
  return lead.length;
}

}  // namespace

std::string_view take_utf8(std::string_view& text) {
  const size_t length = sequence_length(text);
  const std::string_view taken = length == 0 ? replacement_character : text.substr(0, length);
  text.remove_prefix(std::max<size_t>(length, 1));
  return taken;
}

std::string single_line(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view character = take_utf8(text);
    const auto first = static_cast<unsigned char>(character[0]);
    // U+0080 to U+009F too: a terminal takes U+009B for an escape sequence.
    const bool is_c1 = first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
    out += first < 0x20 || first == 0x7F || is_c1 ? " " : character;
  }
  return out;
}

std::string utf8_prefix(std::string_view text, size_t max_bytes) {
  std::string prefix;
  while (!text.empty()) {
    const std::string_view character = take_utf8(text);
    if (prefix.size() + character.size() > max_bytes) break;
    prefix += character;
  }
  return prefix;
}

}  // namespace tutti
