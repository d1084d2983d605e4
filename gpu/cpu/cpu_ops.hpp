#pragma once

#include <memory>

#include "gpu/cpu/gemm_packer.hpp"
#include "gpu/ops.hpp"
#include "gpu/weight_type.hpp"

namespace tutti {

/// Operations on one CPU core, activations in fp32: single-threaded, with the instruction set of
/// cpu::use_level. Matrices are packed for `choice`, stored as `weights`.
[[nodiscard]] std::unique_ptr<Ops> make_cpu_ops(cpu::GemmChoice choice = cpu::GemmChoice::automatic,
                                                WeightType weights = WeightType::fp32);

}  // namespace tutti
