#pragma once

#include <cstdint>
#include <string_view>

namespace tutti {

/// How the matrices of linear layers and convolutions are stored. On a CPU bf16 takes half of the memory and
/// is multiplied as fp32, int8 a quarter and is multiplied as integers. A GPU multiplies all but fp32 on
/// tensor cores, with the rows that they are multiplied with rounded to the same type.
enum class WeightType : uint8_t { fp32, bf16, fp16, int8, fp8 };

/// "fp32", "bf16", "fp16", "int8", "fp8" (e4m3 with a scale for each output).
[[nodiscard]] std::string_view weight_type_name(WeightType type);

/// Throws std::invalid_argument for another name.
[[nodiscard]] WeightType parse_weight_type(std::string_view name);

}  // namespace tutti
