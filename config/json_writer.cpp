#include "config/json_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "config/utf8.hpp"

namespace tutti {
namespace {

// Keeps value * 1000 inside the integers a double holds exactly.
constexpr double largest_decimal = 9e12;

void append_escape(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\b':
      out += "\\b";
      break;
    case '\f':
      out += "\\f";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
      break;
  }
}

bool needs_escape(char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; }

}  // namespace

void JsonWriter::separate() {
  if (std::exchange(after_key_, false)) return;
  if (needs_comma_) out_ += ',';
  needs_comma_ = true;
  break_line();
}

void JsonWriter::break_line() {
  if (layout_ == Layout::compact || out_.empty()) return;
  out_ += '\n';
  out_.append(2 * depth_, ' ');
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  needs_comma_ = false;
  ++depth_;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  --depth_;
  if (needs_comma_) break_line();
  out_ += bracket;
  needs_comma_ = true;
  return *this;
}

void JsonWriter::append_quoted(std::string_view value) {
  out_ += '"';
  while (!value.empty()) {
    const std::string_view character = take_utf8(value);
    if (needs_escape(character[0])) {
      append_escape(out_, character[0]);
    } else {
      out_ += character;
    }
  }
  out_ += '"';
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  append_quoted(name);
  out_ += layout_ == Layout::compact ? ":" : ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::string(std::string_view value) {
  separate();
  append_quoted(value);
  return *this;
}

JsonWriter& JsonWriter::integer(int64_t value) {
  separate();
  fmt::format_to(std::back_inserter(out_), "{}", value);
  return *this;
}

JsonWriter& JsonWriter::boolean(bool value) {
  separate();
  out_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::null() {
  separate();
  out_ += "null";
  return *this;
}

JsonWriter& JsonWriter::decimal(double value) {
  separate();
  const double bounded = std::isfinite(value) ? std::clamp(value, -largest_decimal, largest_decimal) : 0.0;
  const int64_t thousandths = std::llround(bounded * 1000.0);
  const int64_t magnitude = std::abs(thousandths);
  fmt::format_to(std::back_inserter(out_), "{}{}.{:03}", thousandths < 0 ? "-" : "", magnitude / 1000,
                 magnitude % 1000);
  if (out_.back() == '0') out_.pop_back();
  return *this;
}

JsonWriter& JsonWriter::number(float value) {
  separate();
  fmt::format_to(std::back_inserter(out_), "{}", std::isfinite(value) ? value : 0.0F);
  return *this;
}

}  // namespace tutti
