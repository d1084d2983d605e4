#pragma once

#include <gtest/gtest.h>

#include "gpu/cpu/targets.hpp"
// After targets.hpp, which says what is compiled:
#include <hwy/targets.h>

namespace tutti {

/// Runs `check` with the kernels of each instruction set that this build and machine have, the portable
/// baseline included.
template <class Check>
void on_every_target(Check check) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();  // the next dispatch chooses again
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace tutti
