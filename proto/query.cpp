#include "proto/query.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace tutti::proto {
namespace {

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

enum class Plus : bool { is_itself, is_space };

Result<std::string> percent_decode(std::string_view text, Plus plus) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i] == '+' && plus == Plus::is_space ? ' ' : text[i];
      continue;
    }
    const auto high = i + 1 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
    const auto low = i + 2 < text.size() ? hex_digit(text[i + 2]) : std::nullopt;
    if (!high || !low) {
      return fail("bad_parameter",
                  fmt::format("the URL has \"{}\" where two hexadecimal digits follow a percent sign; a "
                              "percent sign itself is written %25",
                              text.substr(i, 3)));
    }
    decoded += static_cast<char>(*high * 16 + *low);
    i += 2;
  }
  return decoded;
}

}  // namespace

Result<QueryParameters> parse_query(std::string_view query) {
  QueryParameters parameters;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    auto name = percent_decode(pair.substr(0, equals), Plus::is_space);
    if (!name) return tl::unexpected(name.error());
    auto value =
        percent_decode(equals == std::string_view::npos ? "" : pair.substr(equals + 1), Plus::is_space);
    if (!value) return tl::unexpected(value.error());
    parameters.emplace_back(std::move(*name), std::move(*value));
  }
  return parameters;
}

Result<std::string> decode_path_segment(std::string_view segment) {
  return percent_decode(segment, Plus::is_itself);
}

}  // namespace tutti::proto
