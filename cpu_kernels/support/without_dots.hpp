// Levels that bring a dot product of bytes or of bf16 differ by it alone. An operator's kernels that take none are
// built for the level below, once: a third of what linear_w4a16 takes a compiler.
#pragma once

#include <type_traits>

#include <inlay/core/isa.hpp>

namespace inlay::cpu {

template <class Level>
using WithoutDots = std::conditional_t<std::is_base_of_v<isa::avx512, Level>, isa::avx512,
                                       std::conditional_t<std::is_base_of_v<isa::neon, Level>, isa::neon, Level>>;

}  // namespace inlay::cpu
