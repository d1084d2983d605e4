#pragma once

// Included before Highway by every file that is compiled once per instruction set. Three levels are worth
// their compile time: the portable baseline, AVX2 with FMA, and AVX-512; the steps between them serve no
// machine this server is meant for. Other architectures are not restricted.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#endif
