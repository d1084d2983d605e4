#include "gpu/weight_type.hpp"

#include <fmt/ranges.h>

#include <array>
#include <stdexcept>

namespace tutti {
namespace {

constexpr std::array types{WeightType::fp32, WeightType::bf16, WeightType::fp16, WeightType::int8,
                           WeightType::fp8};
constexpr std::array<std::string_view, types.size()> names{"fp32", "bf16", "fp16", "int8", "fp8"};

}  // namespace

std::string_view weight_type_name(WeightType type) { return names[static_cast<size_t>(type)]; }

WeightType parse_weight_type(std::string_view name) {
  for (const WeightType type : types) {
    if (weight_type_name(type) == name) return type;
  }
  throw std::invalid_argument(
      fmt::format("\"{}\" is no weight type: {} are accepted", name, fmt::join(names, ", ")));
}

}  // namespace tutti
