#include "model/spec_limits.hpp"

#include <fmt/format.h>

namespace tutti::limits {

std::optional<Misfit> find_misfit(const ConformerSpec& spec) {
  if (const int step = 2 * spec.attention_heads; spec.output_size % step != 0) {
    return Misfit{"output_size", std::to_string(spec.output_size),
                  fmt::format("a multiple of twice attention_heads, {}", step)};
  }
  if (spec.cnn_module_kernel % 2 == 0) {
    return Misfit{"cnn_module_kernel", std::to_string(spec.cnn_module_kernel), "an odd number"};
  }
  return std::nullopt;
}

std::optional<Misfit> find_misfit(const DecoderSpec& decoder, const ConformerSpec& spec) {
  if (spec.output_size % decoder.attention_heads == 0) return std::nullopt;
  return Misfit{"attention_heads", std::to_string(decoder.attention_heads),
                fmt::format("a divisor of the encoder's output_size, {}", spec.output_size)};
}

}  // namespace tutti::limits
