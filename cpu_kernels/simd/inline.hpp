// INLAY_INLINE (core/inline.hpp) and INLAY_UNROLL.
#pragma once

#include <inlay/core/inline.hpp>

// Before a loop over an array of registers: GCC 12 at -O2 leaves such a loop rolled and its registers
// in memory (12 chains of fma ran at a third of their speed). A sanitizer's checks grow with it: clang took a minute for
// flash attention instead of 13 seconds, so their builds define INLAY_ROLLED.
#if defined(INLAY_ROLLED)
#define INLAY_UNROLL
#elif defined(__clang__)
#define INLAY_UNROLL _Pragma("clang loop unroll(full)")
#else
#define INLAY_UNROLL _Pragma("GCC unroll 64")
#endif
