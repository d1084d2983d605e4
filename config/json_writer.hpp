#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

/// Writes one JSON value into a string, left to right. What it writes is always valid JSON in valid UTF-8, as
/// long as begins and ends match and every member of an object follows a key.
class JsonWriter {
 public:
  enum class Layout : uint8_t {
    compact,   ///< no white space
    indented,  ///< a line each, for files that people read
  };
  explicit JsonWriter(Layout layout = Layout::compact) : layout_(layout) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  /// Control characters are escaped; each byte that is not UTF-8 becomes U+FFFD.
  JsonWriter& string(std::string_view value);
  JsonWriter& integer(int64_t value);
  JsonWriter& boolean(bool value);
  JsonWriter& null();
  /// Two decimals, or three where the third is not 0, whatever the locale: 0.32, 1.285. JSON has no NaN or
  /// infinity: those are written as 0.00.
  JsonWriter& decimal(double value);
  /// The shortest decimals that read back as the same float; NaN and infinity as 0.
  JsonWriter& number(float value);

  [[nodiscard]] std::string take() && { return std::move(out_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
  void break_line();
  void append_quoted(std::string_view value);

  Layout layout_;
  std::string out_;
  size_t depth_ = 0;
  bool needs_comma_ = false;
  bool after_key_ = false;
};

}  // namespace tutti
