#include "model/stream_conditioning.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/result.hpp"

namespace tutti {

void require_conditioning(std::span<const StreamStateSpec> states,
                          std::span<const StreamConditioning> conditioning, std::string_view runtime,
                          bool carries_encoder_conditioning) {
  for (const StreamConditioning& given : conditioning) {
    if (!carries_encoder_conditioning) {
      throw SetupError(fmt::format(
          "the {} does not write an encoder's conditioning, and this encoder needs '{}' of every stream",
          runtime, given.state));
    }
    const auto state = std::ranges::find(states, given.state, &StreamStateSpec::name);
    if (state == states.end() || !state->persistent) {
      throw SetupError(
          fmt::format("the encoder conditions '{}', expected one of its persistent states", given.state));
    }
  }
  for (const StreamStateSpec& state : states) {
    const auto conditions = [&](const StreamConditioning& given) { return given.state == state.name; };
    if (!state.persistent || std::ranges::any_of(conditioning, conditions)) continue;
    throw SetupError(
        fmt::format("the encoder's persistent state '{}' has no conditioning, expected a value for streams "
                    "that ask for none",
                    state.name));
  }
}

}  // namespace tutti
