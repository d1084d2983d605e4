#pragma once

// Included before Highway by every file that is compiled once per instruction set: those of level.hpp are
// worth their compile time, the steps between them serve no machine this server is meant for. On ARM it is
// NEON, since vectors of SVE have no size and cannot be the elements of a tile.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE_256 | HWY_SVE2 | HWY_SVE2_128)
#endif
