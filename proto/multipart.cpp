#include "proto/multipart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

namespace tutti::proto {
namespace {

constexpr std::string_view crlf = "\r\n";
constexpr size_t max_boundary_bytes = 70;  // RFC 2046 section 5.1.1

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), lower);
  return out;
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

tl::unexpected<Error> broken(std::string message) { return fail("bad_multipart", std::move(message)); }

/// Takes a value off `rest`: a token up to `;`, or a quoted string, whose only escapes are \" and \\ (a
/// browser sends the backslashes of a path as they are). Nothing when the quotes do not close.
std::optional<std::string> take_value(std::string_view& rest) {
  std::string value;
  if (!rest.starts_with('"')) {
    value = trim(rest.substr(0, rest.find(';')));
    rest.remove_prefix(std::min(rest.find(';'), rest.size()));
    return value;
  }
  for (size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '"') {
      rest.remove_prefix(i + 1);
      return value;
    }
    const bool escapes =
        rest[i] == '\\' && i + 1 < rest.size() && (rest[i + 1] == '"' || rest[i + 1] == '\\');
    value += rest[escapes ? ++i : i];
  }
  return std::nullopt;
}

/// The parameter `name` of a header value such as `form-data; name="file"`.
std::optional<std::string> parameter(std::string_view header, std::string_view name) {
  std::string_view rest = header;
  while (true) {
    rest.remove_prefix(std::min(rest.find(';'), rest.size()));
    if (rest.empty()) return std::nullopt;
    rest = trim(rest.substr(1));
    const size_t equals = rest.find_first_of("=;");
    if (equals == std::string_view::npos || rest[equals] == ';') continue;
    const bool is_it = lower_case(trim(rest.substr(0, equals))) == name;
    rest = trim(rest.substr(equals + 1));
    auto value = take_value(rest);
    if (!value || is_it) return value;
  }
}

/// The body's delimiter lines.
class Delimiters {
 public:
  Delimiters(std::string_view body, const std::string& boundary)
      : body_(body), text_("\r\n--" + boundary), searcher_(text_.begin(), text_.end()) {}
  Delimiters(const Delimiters&) = delete;
  Delimiters& operator=(const Delimiters&) = delete;

  struct Line {
    size_t begin;  ///< of its CRLF, which is no part of what stands before it
    size_t end;
    bool is_last;
  };

  /// The first that begins at or behind `from`.
  [[nodiscard]] std::optional<Line> find(size_t from) const {
    while (true) {
      const auto found = std::search(body_.begin() + static_cast<ptrdiff_t>(from), body_.end(), searcher_);
      if (found == body_.end()) return std::nullopt;
      const auto begin = static_cast<size_t>(found - body_.begin());
      if (const auto line = line_at(begin, begin + text_.size())) return line;
      from = begin + text_.size();
    }
  }
  /// The first of all, which may stand at the very begin of the body, without its CRLF.
  [[nodiscard]] std::optional<Line> find_first() const {
    const auto bare = std::string_view(text_).substr(crlf.size());
    if (body_.starts_with(bare)) {
      if (const auto line = line_at(0, bare.size())) return line;
    }
    return find(0);
  }

 private:
  /// Nothing when the line goes on: then its begin only looks like the boundary.
  [[nodiscard]] std::optional<Line> line_at(size_t begin, size_t boundary_end) const {
    if (body_.substr(boundary_end).starts_with("--")) return Line{begin, boundary_end + 2, true};
    const size_t end = body_.find_first_not_of(" \t", boundary_end);
    if (end == std::string_view::npos || !body_.substr(end).starts_with(crlf)) return std::nullopt;
    return Line{begin, end + crlf.size(), false};
  }

  std::string_view body_;
  std::string text_;
  std::boyer_moore_searcher<std::string::const_iterator> searcher_;
};

/// The name in the Content-Disposition of a field's headers.
Result<std::string> field_name(std::string_view headers) {
  while (!headers.empty()) {
    const std::string_view line = headers.substr(0, headers.find(crlf));
    headers.remove_prefix(std::min(line.size() + crlf.size(), headers.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || lower_case(line.substr(0, colon)) != "content-disposition")
      continue;
    const std::string_view value = trim(line.substr(colon + 1));
    auto name = parameter(value, "name");
    if (media_type(value) == "form-data" && name) return std::move(*name);
    break;
  }
  return broken("a part of the form has no \"Content-Disposition: form-data; name=\"...\"\"");
}

Result<FormField> parse_field(std::string_view part) {
  const size_t headers_end = part.substr(0, max_field_header_bytes).find("\r\n\r\n");
  if (headers_end == std::string_view::npos) {
    return broken(
        fmt::format("the headers of a part of the form do not end within {} bytes", max_field_header_bytes));
  }
  auto name = field_name(part.substr(0, headers_end));
  if (!name) return tl::unexpected(std::move(name.error()));
  return FormField{std::move(*name), part.substr(headers_end + 4)};
}

Result<std::string> find_boundary(std::string_view content_type) {
  auto boundary = parameter(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > max_boundary_bytes) {
    return broken(fmt::format(
        "the Content-Type of a form is \"multipart/form-data; boundary=...\", with a boundary of 1 "
        "to {} characters",
        max_boundary_bytes));
  }
  return std::move(*boundary);
}

}  // namespace

std::string media_type(std::string_view content_type) {
  return lower_case(trim(content_type.substr(0, content_type.find(';'))));
}

Result<std::vector<FormField>> parse_form(std::string_view content_type, std::string_view body) {
  const auto boundary = find_boundary(content_type);
  if (!boundary) return tl::unexpected(boundary.error());
  const Delimiters delimiters(body, *boundary);
  auto line = delimiters.find_first();
  if (!line) return broken("the boundary that the Content-Type names does not occur in the body");
  std::vector<FormField> fields;
  while (!line->is_last) {
    // The next delimiter's CRLF may be the one this line ended with: such a part is empty, and refused.
    const size_t begin = line->end;
    line = delimiters.find(begin - crlf.size());
    if (!line) return broken("the form ends without its last boundary: it is not complete");
    if (fields.size() == max_form_fields) {
      return broken(fmt::format("the form has more than {} parts", max_form_fields));
    }
    auto field = parse_field(body.substr(begin, std::max(line->begin, begin) - begin));
    if (!field) return tl::unexpected(std::move(field.error()));
    fields.push_back(std::move(*field));
  }
  return fields;
}

}  // namespace tutti::proto
