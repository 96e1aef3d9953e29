// The instruction sets that the CPU kernels are built for. Each level's kernels are templates on
// its tag; a level inherits what the level below it can do.
#pragma once

#include <string_view>

#include <inlay/core/inline.hpp>

namespace inlay {

enum class Isa : unsigned char { scalar, avx2, avx512, avx512_vnni, avx512_bf16, neon, neon_dotprod, neon_i8mm };

// Those that this build holds, ascending: of the architecture that it is compiled for, all but where CMake's INLAY_ISA
// names some, which are then given to all who link inlay::cpu.
#if defined(INLAY_BUILT_ISAS)
INLAY_HIDDEN inline constexpr Isa all_isas[] = {INLAY_BUILT_ISAS};
#elif defined(__aarch64__)
INLAY_HIDDEN inline constexpr Isa all_isas[] = {Isa::scalar, Isa::neon, Isa::neon_dotprod, Isa::neon_i8mm};
#elif defined(__x86_64__)
INLAY_HIDDEN inline constexpr Isa all_isas[] = {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512_vnni,
                                                Isa::avx512_bf16};
#else
INLAY_HIDDEN inline constexpr Isa all_isas[] = {Isa::scalar};
#endif

inline namespace INLAY_UNIT_ISA {

constexpr bool is_built(Isa isa) {
  for (Isa each : all_isas)
    if (each == isa) return true;
  return false;
}

constexpr std::string_view name(Isa isa) {
  constexpr std::string_view table[] = {"scalar",      "avx2", "avx512",       "avx512_vnni",
                                        "avx512_bf16", "neon", "neon_dotprod", "neon_i8mm"};
  return table[static_cast<int>(isa)];
}

}  // namespace INLAY_UNIT_ISA

namespace isa {
// Whatever the compiler's baseline is.
struct scalar {
  using without_dots = scalar;  // the level below whose kernels serve what takes no dot product of bytes or of bf16
};
// AVX2, FMA, F16C.
struct avx2 {
  using without_dots = avx2;
};
// AVX-512 F, BW, CD, DQ, VL.
struct avx512 {
  using without_dots = avx512;
};
struct avx512_vnni : avx512 {};       // + VNNI: dot_i8 in one instruction
struct avx512_bf16 : avx512_vnni {};  // + BF16: dot_bf16 in one instruction
// Armv8-A.
struct neon {
  using without_dots = neon;
};
struct neon_dotprod : neon {};       // + SDOT: dot_i8 in one instruction
struct neon_i8mm : neon_dotprod {};  // + USDOT: with unsigned codes
}  // namespace isa

}  // namespace inlay
