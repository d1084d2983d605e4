#include "model/json_section.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "config/result.hpp"
#include "model/input_file.hpp"

namespace tutti {
namespace {

constexpr size_t max_json_bytes = 1 << 20;

}  // namespace

JsonSection::JsonSection(std::string file, std::string path, const simdjson::dom::object& object)
    : file_(std::move(file)), path_(std::move(path)), object_(object) {
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : object_) keys.push_back(key);
  std::ranges::sort(keys);
  if (const auto twice = std::ranges::adjacent_find(keys); twice != keys.end()) {
    refuse(fmt::format("{}{} appears twice", path_, printable(*twice)));
  }
}

JsonSection JsonSection::load(const std::string& file, simdjson::dom::parser& parser) {
  const std::string text = read_input_file(file, max_json_bytes);
  simdjson::dom::object root;
  if (const auto error = parser.parse(text).get(root)) {
    throw SetupError(fmt::format("{}: is not a JSON object: {}", file, simdjson::error_message(error)));
  }
  return {file, "", root};
}

void JsonSection::refuse(std::string_view key, std::string_view value, std::string_view accepted) const {
  refuse(fmt::format("{}{} is {}; accepted: {}", path_, key, printable(value), accepted));
}

void JsonSection::refuse(const std::string& why) const {
  throw SetupError(fmt::format("{}: {}", file_, why));
}

void JsonSection::know(std::string_view key) {
  if (std::ranges::find(known_, key) == known_.end()) known_.push_back(key);
}

simdjson::dom::element JsonSection::find(std::string_view key, std::string_view accepted) {
  know(key);
  simdjson::dom::element value;
  if (object_[key].get(value)) {
    refuse(fmt::format("{}{} is missing; accepted: {}", path_, key, accepted));
  }
  return value;
}

template <class T>
T JsonSection::member(std::string_view key, std::string_view accepted) {
  const simdjson::dom::element value = find(key, accepted);
  T converted{};
  if (value.get(converted)) refuse(key, simdjson::minify(value), accepted);
  return converted;
}

bool JsonSection::contains(std::string_view key) {
  know(key);
  return object_[key].error() == simdjson::SUCCESS;
}

JsonSection JsonSection::section(std::string_view key) {
  const auto object = member<simdjson::dom::object>(key, "an object");
  return {file_, fmt::format("{}{}.", path_, key), object};
}

std::string JsonSection::text(std::string_view key) {
  return std::string(member<std::string_view>(key, "a string"));
}

std::string JsonSection::one_of(std::string_view key, std::initializer_list<std::string_view> accepted) {
  const std::string choices = fmt::format("\"{}\"", fmt::join(accepted, "\", \""));
  const auto value = member<std::string_view>(key, choices);
  if (std::ranges::find(accepted, value) == accepted.end()) refuse(key, value, choices);
  return std::string(value);
}

int JsonSection::integer(std::string_view key, int low, int high) {
  const std::string accepted =
      low == high ? std::to_string(low) : fmt::format("a whole number from {} to {}", low, high);
  const auto value = member<int64_t>(key, accepted);
  if (value < low || value > high) refuse(key, std::to_string(value), accepted);
  return static_cast<int>(value);
}

float JsonSection::number(std::string_view key, float low, float high) {
  const std::string accepted = fmt::format("a number from {} to {}", low, high);
  const auto value = member<double>(key, accepted);
  if (!(value >= low && value <= high)) refuse(key, fmt::format("{}", value), accepted);
  return static_cast<float>(value);
}

void JsonSection::refuse_others() const {
  for (const auto& [key, value] : object_) {
    if (std::ranges::find(known_, key) == known_.end()) {
      refuse(fmt::format("{}{} is not known; accepted: {}", path_, printable(key), fmt::join(known_, ", ")));
    }
  }
}

}  // namespace tutti
