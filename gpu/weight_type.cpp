#include "gpu/weight_type.hpp"

#include <fmt/format.h>

#include <array>
#include <stdexcept>

namespace tutti {
namespace {

constexpr std::array types{WeightType::fp32, WeightType::int8};

}  // namespace

std::string_view weight_type_name(WeightType type) { return type == WeightType::int8 ? "int8" : "fp32"; }

WeightType parse_weight_type(std::string_view name) {
  for (const WeightType type : types) {
    if (weight_type_name(type) == name) return type;
  }
  throw std::invalid_argument(fmt::format("\"{}\" is no weight type: fp32 and int8 are accepted", name));
}

}  // namespace tutti
