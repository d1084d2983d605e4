#include "model/yaml_section.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/result.hpp"
#include "model/input_file.hpp"

namespace tutti {
namespace {

constexpr size_t max_yaml_bytes = 1 << 20;

}  // namespace

YamlSection YamlSection::load(const std::string& file) {
  const std::string text = read_input_file(file, max_yaml_bytes);
  try {
    YAML::Node root = YAML::Load(text);
    if (!root.IsMap()) throw SetupError(fmt::format("{}: a YAML mapping is expected", file));
    return {file, "", std::move(root)};
  } catch (const YAML::Exception& error) {
    throw SetupError(fmt::format("{}: is not YAML: {}", file, error.what()));
  }
}

void YamlSection::refuse(const std::string& key, std::string_view value, std::string_view accepted) const {
  throw SetupError(
      fmt::format("{}: {}{} is {}; accepted: {}", file_, path_, key, printable(value), accepted));
}

void YamlSection::missing(const std::string& key) const {
  throw SetupError(fmt::format("{}: {}{} is missing", file_, path_, key));
}

std::optional<YAML::Node> YamlSection::find(const std::string& key) const {
  // Only a const node looks a key up without adding it.
  const YAML::Node& mapping = node_;
  const YAML::Node value = mapping[key];
  if (!value.IsDefined() || value.IsNull()) return std::nullopt;
  return value;
}

YamlSection YamlSection::section(const std::string& key) const {
  const auto value = find(key);
  if (value && !value->IsMap()) refuse(key, value->IsScalar() ? value->Scalar() : "a list", "a mapping");
  return {file_, path_ + key + '.', value ? *value : YAML::Node(YAML::NodeType::Map)};
}

template <class T>
std::optional<T> YamlSection::scalar(const std::string& key, std::string_view accepted) const {
  const auto value = find(key);
  if (!value) return std::nullopt;
  if (!value->IsScalar()) refuse(key, "a list or mapping", accepted);
  T converted{};
  if (!YAML::convert<T>::decode(*value, converted)) refuse(key, value->Scalar(), accepted);
  return converted;
}

std::optional<std::string> YamlSection::text(const std::string& key) const {
  return scalar<std::string>(key, "a string");
}

std::optional<bool> YamlSection::boolean(const std::string& key) const {
  return scalar<bool>(key, "true, false");
}

std::optional<double> YamlSection::number(const std::string& key) const {
  return scalar<double>(key, "a number");
}

std::optional<int> YamlSection::integer(const std::string& key, int low, int high) const {
  const std::string accepted = fmt::format("a whole number from {} to {}", low, high);
  const auto value = scalar<int>(key, accepted);
  if (value && (*value < low || *value > high)) refuse(key, std::to_string(*value), accepted);
  return value;
}

int YamlSection::required_integer(const std::string& key, int low, int high) const {
  const auto value = integer(key, low, high);
  if (!value) missing(key);
  return *value;
}

std::string YamlSection::one_of(const std::string& key, const std::string& fallback,
                                std::initializer_list<std::string_view> accepted) const {
  const std::string value = text(key).value_or(fallback);
  if (std::ranges::find(accepted, value) == accepted.end()) {
    refuse(key, value, fmt::format("{}", fmt::join(accepted, ", ")));
  }
  return value;
}

void YamlSection::require(const std::string& key, bool fallback, bool accepted) const {
  const bool value = boolean(key).value_or(fallback);
  if (value != accepted) refuse(key, fmt::format("{}", value), fmt::format("{}", accepted));
}

}  // namespace tutti
