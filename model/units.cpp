#include "model/units.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <charconv>
#include <optional>
#include <utility>

#include "config/result.hpp"
#include "model/input_file.hpp"

namespace tutti {
namespace {

constexpr size_t max_units_bytes = 64 << 20;

std::optional<size_t> parse_id(std::string_view text) {
  size_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return id;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

}  // namespace

std::vector<std::string> load_units(const std::filesystem::path& file) {
  const std::string text = read_input_file(file, max_units_bytes);
  const std::vector<std::string_view> lines = split_lines(text);
  if (lines.empty()) throw SetupError(fmt::format("{}: holds no units", file.string()));
  std::vector<std::optional<std::string>> units(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto refuse = [&](std::string_view why) {
      return SetupError(fmt::format("{}: line {}: {}", file.string(), i + 1, why));
    };
    const size_t space = lines[i].find_last_of(" \t");
    const auto id = parse_id(space == std::string_view::npos ? "" : lines[i].substr(space + 1));
    if (!id || space == 0) throw refuse("\"token id\" is expected");
    if (*id >= units.size()) {
      throw refuse(fmt::format("id {} is not below the number of units, {}", *id, units.size()));
    }
    if (units[*id]) throw refuse(fmt::format("id {} appears twice", *id));
    const std::string_view token = lines[i].substr(0, space);
    if (!simdjson::validate_utf8(token)) throw refuse("the token is not UTF-8");
    units[*id] = token;
  }
  // As many distinct ids below n as there are units: every entry is set.
  std::vector<std::string> spellings;
  spellings.reserve(units.size());
  for (auto& unit : units) spellings.push_back(*std::move(unit));
  return spellings;
}

}  // namespace tutti
