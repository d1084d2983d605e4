#pragma once

#include <span>
#include <string_view>

#include "cache/slot_state.hpp"

namespace tutti {

/// What a request says to an encoder before its first frame: the value of a persistent state, such as the id
/// of a language prompt.
struct StreamConditioning {
  std::string_view state;
  double value = 0;
};

/// Throws SetupError unless every persistent state is conditioned, no other is, and the runtime named
/// `runtime` writes the values at admission. One that does not would run every stream under 0, which is a
/// language too.
void require_conditioning(std::span<const StreamStateSpec> states,
                          std::span<const StreamConditioning> conditioning, std::string_view runtime,
                          bool carries_encoder_conditioning);

}  // namespace tutti
