#include "proto/json_message.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::proto {
namespace {

using simdjson::dom::object;

template <class T>
std::optional<T> value_in(const object& from, std::string_view name) {
  T value{};
  if (from[name].get<T>().get(value) != simdjson::SUCCESS) return std::nullopt;
  return value;
}

}  // namespace

Result<JsonMessage> JsonMessage::parse(std::string_view text, size_t max_bytes) {
  if (text.size() > max_bytes) {
    return fail("bad_message", fmt::format("the message has {} bytes; such a message has at most {}",
                                           text.size(), max_bytes));
  }
  JsonMessage message;
  message.parser_ = std::make_unique<simdjson::dom::parser>(max_bytes);
  simdjson::dom::element document;
  auto error = message.parser_->allocate(std::max<size_t>(text.size(), 1), max_json_depth);
  if (error == simdjson::SUCCESS) error = message.parser_->parse(text.data(), text.size()).get(document);
  if (error != simdjson::SUCCESS) {
    return fail("bad_json", fmt::format("the message is not JSON: {}", simdjson::error_message(error)));
  }
  if (document.get_object().get(message.object_) != simdjson::SUCCESS) {
    return fail("bad_json", "the message is JSON but not an object");
  }
  return message;
}

std::optional<std::string_view> string_in(const object& from, std::string_view name) {
  return value_in<std::string_view>(from, name);
}

std::optional<double> number_in(const object& from, std::string_view name) {
  return value_in<double>(from, name);
}

std::optional<int64_t> integer_in(const object& from, std::string_view name) {
  return value_in<int64_t>(from, name);
}

std::optional<bool> flag_in(const object& from, std::string_view name) { return value_in<bool>(from, name); }

std::optional<object> object_in(const object& from, std::string_view name) {
  return value_in<object>(from, name);
}

std::optional<simdjson::dom::array> array_in(const object& from, std::string_view name) {
  return value_in<simdjson::dom::array>(from, name);
}

bool is_null(const object& from, std::string_view name) {
  simdjson::dom::element value;
  return from[name].get(value) == simdjson::SUCCESS && value.is_null();
}

}  // namespace tutti::proto
