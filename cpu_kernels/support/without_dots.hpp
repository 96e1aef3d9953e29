// Levels that bring a dot product of bytes or of bf16 differ by it alone. An operator's kernels that take none are
// built for the level below, once: a third of what linear_w4a16 takes a compiler. A unit that includes the kernels
// (inlay/cpu_inline.hpp) has one level, and nothing below it.
#pragma once

#include <inlay/core/isa.hpp>

namespace inlay::cpu {

template <class Level> using WithoutDots = typename Level::without_dots;

}  // namespace inlay::cpu
