#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

/// Writes one JSON value into a string, left to right. What it writes is always valid JSON in valid UTF-8, as
/// long as begins and ends match and every member of an object follows a key.
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  /// Control characters are escaped; each byte that is not UTF-8 becomes U+FFFD.
  JsonWriter& string(std::string_view value);
  JsonWriter& integer(int64_t value);
  /// Two decimals, or three where the third is not 0, whatever the locale: 0.32, 1.285. JSON has no NaN or
  /// infinity: those are written as 0.00.
  JsonWriter& decimal(double value);

  [[nodiscard]] std::string take() && { return std::move(out_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
  void append_quoted(std::string_view value);

  std::string out_;
  bool needs_comma_ = false;
};

}  // namespace tutti
