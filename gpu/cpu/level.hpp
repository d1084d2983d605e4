#pragma once

#include <string_view>
#include <vector>

namespace tutti::cpu {

// The instruction sets that kernels are compiled for, by name: on x86 "portable" (what every 64-bit CPU has),
// "avx2" (with FMA), "avx512" (F, BW, DQ, VL) and "avx512_vnni", each with those before it; on ARM "neon".
//
// Highway keeps the choice for the whole process and every kernel asks for it, in one atomic word. What is
// packed for one level cannot be read by another: choose before the first Ops is made, while there is one
// thread; from then on it is only read.

/// Those that this build and this machine have, the lowest first. Not affected by `use_level`.
[[nodiscard]] std::vector<std::string_view> levels();

/// Has kernels use no more than level `name`, or the highest again for "auto". Throws SetupError for one that
/// this build or this machine does not have.
void use_level(std::string_view name);

/// The one in use.
[[nodiscard]] std::string_view level();

/// Whether a lower level than this machine's highest is in use. oneDNN, which chooses by itself and once per
/// process, is then left out.
[[nodiscard]] bool level_is_lowered();

/// Whether kernels for AVX-512 may multiply bytes with VNNI, which Highway does not tell from it.
[[nodiscard]] bool vnni_is_in_use();

}  // namespace tutti::cpu
