#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "gpu/cpu/level.hpp"

namespace tutti {

/// Has kernels use no more than one level while it lives. What is packed in the meantime is for that level.
class HeldLevel {
 public:
  explicit HeldLevel(std::string_view level) { cpu::use_level(level); }
  ~HeldLevel() { cpu::use_level("auto"); }
  HeldLevel(const HeldLevel&) = delete;
  HeldLevel& operator=(const HeldLevel&) = delete;
};

/// Runs `check` with the kernels of each instruction set that this build and machine have, the portable
/// baseline included.
template <class Check>
void on_every_target(Check check) {
  for (const std::string_view level : cpu::levels()) {
    SCOPED_TRACE(level);
    const HeldLevel held(level);
    check();
  }
}

}  // namespace tutti
