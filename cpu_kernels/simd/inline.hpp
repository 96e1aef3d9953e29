// Kernels are built several times with different instruction sets. A function that is emitted out
// of line in one of those objects could be linked into code for an older machine, so every helper
// without a level in its name is inlined always; tests/core/weak_symbols.cmake looks for the others.
#pragma once

#define INLAY_INLINE inline __attribute__((always_inline))

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
