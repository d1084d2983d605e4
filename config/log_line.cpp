#include "config/log_line.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tutti {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

}  // namespace

std::string about(std::string_view session) { return fmt::format("session={} ", session); }

std::string about(std::string_view session, int track) {
  return fmt::format("session={} track={} ", session, track);
}

LogLine read_log_line(std::string_view text) {
  LogLine line{.fields = {}, .message = text};
  while (true) {
    const size_t space = line.message.find(' ');
    const std::string_view word = line.message.substr(0, space);
    const size_t equals = word.find('=');
    if (space == std::string_view::npos || equals == std::string_view::npos) return line;
    if (!is_name(word.substr(0, equals))) return line;
    line.fields.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    line.message.remove_prefix(space + 1);
  }
}

}  // namespace tutti
