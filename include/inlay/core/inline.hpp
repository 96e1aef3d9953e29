// INLAY_INLINE: of what is built several times with different instruction sets. A function that is emitted out of line in
// one of those objects could be linked into code for an older machine, so every helper without a level in its name is
// inlined always; tests/core/weak_symbols.cmake looks for the others.
#pragma once

#define INLAY_INLINE inline __attribute__((always_inline))
