#pragma once

#include <memory>

#include "gpu/cpu/gemm_packer.hpp"
#include "gpu/ops.hpp"

namespace tutti {

/// Operations on one CPU core, fp32: single-threaded, the instruction set chosen at run time.
[[nodiscard]] std::unique_ptr<Ops> make_cpu_ops(cpu::GemmChoice choice = cpu::GemmChoice::automatic);

}  // namespace tutti
