// Batch<T, Level>: xsimd's register of T, at one of our levels.
//
// Arch<Level> derives from xsimd's architecture, whose functions therefore serve it, and every symbol that they make
// carries the name of the level: one level's body is never linked into another. Types are declared here and not
// inherited, or their members would be symbols of xsimd's architecture.
//
// Not at the neon levels. xsimd 8.1 calls most operations of neon64 through tables of functions that GCC 12 does not
// see through (a + b * a / b - a: four calls), divides and takes roots by estimates, and cannot broadcast where an
// architecture derives from it.
#pragma once

#include "cpu_kernels/simd/inline.hpp"
#include "cpu_kernels/simd/intrinsics.hpp"

// What xsimd includes, ahead of it: its own functions are inlined always. Neither GCC's -O2 nor clang's -O1 promises
// that for a call of a call of an intrinsic, and a sanitizer's build would call a function for each of them.
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((always_inline)), apply_to = function)
#include <xsimd/xsimd.hpp>
#pragma clang attribute pop
#else
#pragma push_macro("inline")
#define inline inline __attribute__((always_inline))
#include <xsimd/xsimd.hpp>
#pragma pop_macro("inline")
#endif

#include <inlay/core/isa.hpp>

namespace inlay::simd {

template <class Level> struct Arch;
#if defined(__AVX2__) && defined(__FMA__)
template <class Level>
requires std::is_base_of_v<isa::avx2, Level>
struct Arch<Level> : xsimd::fma3<xsimd::avx2> {
  using Of = xsimd::fma3<xsimd::avx2>;
};
#endif
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
template <class Level>
requires std::is_base_of_v<isa::avx512, Level>
struct Arch<Level> : xsimd::avx512bw {
  using Of = xsimd::avx512bw;
};
#endif

template <class T, class Level> using Batch = xsimd::batch<T, Arch<Level>>;

// Levels whose registers are batches. A unit of other levels does without this header.
#define INLAY_BATCHES
template <class Level>
inline constexpr bool has_batches = std::is_base_of_v<isa::avx2, Level> || std::is_base_of_v<isa::avx512, Level>;

}  // namespace inlay::simd

namespace xsimd::types {

template <class T, class Level>
struct has_simd_register<T, inlay::simd::Arch<Level>> : has_simd_register<T, typename inlay::simd::Arch<Level>::Of> {};

template <class T, class Level> struct simd_register<T, inlay::simd::Arch<Level>> {
  using register_type = typename simd_register<T, typename inlay::simd::Arch<Level>::Of>::register_type;
  register_type data;
  INLAY_INLINE operator register_type() const noexcept { return data; }
};

// Masks of AVX-512 have registers of their own; elsewhere they are vectors.
template <class T, class Level> struct get_bool_simd_register<T, inlay::simd::Arch<Level>> {
  struct type {
    using register_type = typename get_bool_simd_register_t<T, typename inlay::simd::Arch<Level>::Of>::register_type;
    register_type data;
    INLAY_INLINE operator register_type() const noexcept { return data; }
  };
};

}  // namespace xsimd::types
