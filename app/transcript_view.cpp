#include "app/transcript_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tutti {
namespace {

constexpr std::string_view erase_line = "\r\x1b[K";
constexpr std::string_view dim = "\x1b[2m";
constexpr std::string_view plain = "\x1b[0m";

bool continues_character(char c) { return (static_cast<uint8_t>(c) & 0xC0U) == 0x80U; }

// U+1100, the first wide character, is E1 84 80 in UTF-8.
int columns_of(std::string_view character) {
  return character.size() >= 3 && character.substr(0, 2) >= "\xe1\x84" ? 2 : 1;
}

// C0, DEL, and C1 in UTF-8 (C2 80 to C2 9F) become spaces.
std::string without_controls(std::string_view text) {
  std::string clean;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const bool c1 = byte == 0xC2U && i + 1 < text.size() && static_cast<uint8_t>(text[i + 1]) < 0xA0U;
    clean += byte < 0x20U || byte == 0x7FU || c1 ? ' ' : text[i];
    if (c1) ++i;
  }
  return clean;
}

}  // namespace

std::string fit_end(std::string_view text, int columns) {
  int used = 0;
  size_t kept = text.size();  // where the text that fits begins, with the mark before it
  for (size_t at = text.size(); at > 0;) {
    const size_t end = at--;
    while (at > 0 && continues_character(text[at])) --at;
    used += columns_of(text.substr(at, end - at));
    if (used > columns) return "…" + std::string(text.substr(kept));
    if (used < columns) kept = at;
  }
  return std::string(text);
}

std::string clock_time(double seconds) {
  const auto hundredths = static_cast<int64_t>(std::llround(std::max(seconds, 0.0) * 100));
  const int64_t minutes = hundredths / 6000;
  const std::string rest = fmt::format("{:02}.{:02}", hundredths / 100 % 60, hundredths % 100);
  return minutes < 60 ? fmt::format("{}:{}", minutes, rest)
                      : fmt::format("{}:{:02}:{}", minutes / 60, minutes % 60, rest);
}

std::string TranscriptView::partial(std::string_view text) {
  if (!terminal_) return {};
  open_ = true;
  // A full line would make some terminals wrap.
  return fmt::format("{}{}{}{}", erase_line, dim, fit_end(without_controls(text), columns_ - 1), plain);
}

std::string TranscriptView::final(std::string_view text, double start) {
  std::string written = clear();
  if (text.empty()) return written;
  if (terminal_) written += fmt::format("{}{:>8}{}  ", dim, clock_time(start), plain);
  return written + without_controls(text) + "\n";
}

std::string TranscriptView::clear() {
  if (!open_) return {};
  open_ = false;
  return std::string(erase_line);
}

}  // namespace tutti
