#pragma once

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "config/result.hpp"

namespace tutti::proto {

/// How deep a client's message may nest.
inline constexpr size_t max_json_depth = 16;

/// A client's message that is a JSON object. Owns what its views point into. Who includes it needs simdjson.
class JsonMessage {
 public:
  /// Fails with bad_message (longer than `max_bytes`) and bad_json (not JSON, not an object, nested too
  /// deep).
  [[nodiscard]] static Result<JsonMessage> parse(std::string_view text, size_t max_bytes);

  [[nodiscard]] const simdjson::dom::object& object() const { return object_; }

 private:
  JsonMessage() = default;
  std::unique_ptr<simdjson::dom::parser> parser_;  // its address is part of what it parsed
  simdjson::dom::object object_;
};

/// A member of `object`; nothing when there is none, or one of another type.
[[nodiscard]] std::optional<std::string_view> string_in(const simdjson::dom::object& object,
                                                        std::string_view name);
[[nodiscard]] std::optional<double> number_in(const simdjson::dom::object& object, std::string_view name);
[[nodiscard]] std::optional<int64_t> integer_in(const simdjson::dom::object& object, std::string_view name);
[[nodiscard]] std::optional<bool> flag_in(const simdjson::dom::object& object, std::string_view name);
[[nodiscard]] std::optional<simdjson::dom::object> object_in(const simdjson::dom::object& object,
                                                             std::string_view name);
[[nodiscard]] std::optional<simdjson::dom::array> array_in(const simdjson::dom::object& object,
                                                           std::string_view name);
[[nodiscard]] bool is_null(const simdjson::dom::object& object, std::string_view name);

}  // namespace tutti::proto
