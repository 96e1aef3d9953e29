// Units that are built for different machines may share a program, and so may libraries that were built with different
// versions of Inlay. A function that two of them emit under one name is linked once, and the older machine, or the
// other version's structs, may be given the wrong code. So the name of a function that a header defines says which
// version it is of and for which instructions its unit is built:
//
//   inline namespace INLAY_UNIT_ISA { .. }  functions, and classes that the library's own functions do not take: a unit
//                                      with AVX2 and FMA has inlay::v0_9_isa_abcdACF::check
//   INLAY_INLINE                       inlined always: members of types that all units share, helpers of kernels
//   INLAY_HIDDEN                       data of a header, which all units of a library share
//
// Types are the same in all units of a version, which stands in the name of Host, of Status and of Threads, and so in
// the name of whatever is made of one of them. Kernels are templates on their level (core/isa.hpp).
// tests/core/weak_symbols.cmake and tests/consumer/headers look for symbols that are none of these,
// tests/consumer/fetched runs two versions in one process.
#pragma once

#include <inlay/core/version.hpp>

#define INLAY_INLINE inline __attribute__((always_inline))
// To g++ what is inline data has one address in the process, even of libraries that were loaded apart from one another,
// and a library that has some is never unloaded.
#define INLAY_HIDDEN __attribute__((visibility("hidden")))

// A letter for each set of instructions that a compiler may use of its own accord. Each of these macros is 1 or not
// defined; for one that is not, the letter is an empty argument.
#define INLAY_LETTER(macro, letter) INLAY_LETTER_IF(macro, letter)
#define INLAY_LETTER_IF(value, letter) INLAY_LETTER_OF(INLAY_DEFINED_##value, letter)
#define INLAY_LETTER_OF(...) INLAY_THIRD(__VA_ARGS__, , )
#define INLAY_DEFINED_1 ,
#define INLAY_THIRD(first, second, third, ...) third
#define INLAY_JOIN(...) INLAY_PASTE(__VA_ARGS__)
#define INLAY_PASTE(z, a, b, c, d, e, f, g, h, i, j, k, l) z##a##b##c##d##e##f##g##h##i##j##k##l

// clang-format off
#if defined(__x86_64__)
#define INLAY_UNIT_ISA                                                                                                \
  INLAY_JOIN(INLAY_JOIN(INLAY_JOIN(INLAY_VERSION_ISA, INLAY_LETTER(__SSE3__, a), INLAY_LETTER(__SSSE3__, b),          \
  INLAY_LETTER(__SSE4_1__, c), INLAY_LETTER(__SSE4_2__, d), INLAY_LETTER(__SSE4A__, e),                               \
  INLAY_LETTER(__POPCNT__, f), INLAY_LETTER(__LZCNT__, g), INLAY_LETTER(__BMI__, h), INLAY_LETTER(__BMI2__, i),       \
  INLAY_LETTER(__TBM__, j), INLAY_LETTER(__MOVBE__, k), INLAY_LETTER(__APX_F__, l)), INLAY_LETTER(__AVX__, A),        \
  INLAY_LETTER(__F16C__, B), INLAY_LETTER(__FMA__, C), INLAY_LETTER(__FMA4__, D), INLAY_LETTER(__XOP__, E),           \
  INLAY_LETTER(__AVX2__, F), INLAY_LETTER(__AVXVNNI__, G), INLAY_LETTER(__AVXIFMA__, H),                              \
  INLAY_LETTER(__AVXNECONVERT__, I), INLAY_LETTER(__GFNI__, J), INLAY_LETTER(__AVX512F__, K),                         \
  INLAY_LETTER(__AVX512CD__, L)), INLAY_LETTER(__AVX512BW__, M), INLAY_LETTER(__AVX512DQ__, N),                       \
  INLAY_LETTER(__AVX512VL__, O), INLAY_LETTER(__AVX512VNNI__, P), INLAY_LETTER(__AVX512BF16__, Q),                    \
  INLAY_LETTER(__AVX512IFMA__, R), INLAY_LETTER(__AVX512VBMI__, S), INLAY_LETTER(__AVX512VBMI2__, T),                 \
  INLAY_LETTER(__AVX512BITALG__, U), INLAY_LETTER(__AVX512VPOPCNTDQ__, V), INLAY_LETTER(__AVX512FP16__, W),           \
  INLAY_LETTER(__AVX10_1__, X))
#elif defined(__aarch64__)
#define INLAY_UNIT_ISA                                                                                                \
  INLAY_JOIN(INLAY_VERSION_ISA, INLAY_LETTER(__ARM_FEATURE_ATOMICS, a), INLAY_LETTER(__ARM_FEATURE_CRC32, b),         \
  INLAY_LETTER(__ARM_FEATURE_QRDMX, c), INLAY_LETTER(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC, d),                        \
  INLAY_LETTER(__ARM_FEATURE_DOTPROD, e), INLAY_LETTER(__ARM_FEATURE_COMPLEX, f),                                     \
  INLAY_LETTER(__ARM_FEATURE_FRINT, g), INLAY_LETTER(__ARM_FEATURE_RCPC, h),                                          \
  INLAY_LETTER(__ARM_FEATURE_MATMUL_INT8, i), INLAY_LETTER(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC, j),                  \
  INLAY_LETTER(__ARM_FEATURE_SVE, k), INLAY_LETTER(__ARM_FEATURE_SVE2, l))
#else
#define INLAY_UNIT_ISA INLAY_VERSION_ISA
#endif
// clang-format on
