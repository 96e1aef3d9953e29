// A register tile of int8_activations: R rows of x by C registers of channels.
//
// What a tile does for each register of sums and group of 32:
//
//   VNNI            8 VPDPBUSD, 1 conversion, 1 mul, 1 fma (2 with offsets)
//   AVX2            8 VPMADDUBSW, 7 VPADDW, VPMADDWD, VPADDD, and the same three: 20 (20 with offsets)
//   AVX2, 8 bits    16 VPMADDWD, 16 VPADDD, and the same three: 35
//   AVX2, named     8 VPSIGNB, 8 VPMADDUBSW, 8 VPMADDWD, 8 VPADDD, and the same three: 35
//
// and for two registers of words, 8 slots: 2 loads, 6 operations that spread the codes (AVX2: 8 of 8 bits, 14 of named
// ones), and two broadcasts a row. On Zen 5 dot products, mul and fma share two pipes, and nothing else fills one: 8 /
// 10 of the peak is the limit, 8 / 11 with offsets, 32 / 34 and 32 / 35 with groups of 128.
//
// Zen 4 begins four operations of 256 bits a cycle, two of them VPMADDUBSW: 16 / 23 of two VPMADDUBSW a cycle is the
// limit of a tile of four rows, 16 / 21 with groups of 128, 16 / 39 of 8 bits. It does not keep that up: of VPMADDUBSW
// and a VPADDW that waits for it, it begins 3.3 a cycle in whatever order, which is 0.82 of two VPMADDUBSW, and this
// tile in assembly, all of it in L1 and its codes spread before, holds 0.60. Spreading the codes of a job once, for all
// its rows, gave those of 4 bits 2 to 5% with 64 rows, was slower with 4 to 16, and took a layout of its own.
#pragma once

#include "cpu_kernels/linear/w4a16_ahead.hpp"
#include "cpu_kernels/linear/w4a16_bytes.hpp"
#include "cpu_kernels/linear/w4a16_scales.hpp"
#include "cpu_kernels/linear/w4a16_spread.hpp"
#include "cpu_kernels/simd/opaque.hpp"

namespace inlay::cpu {

// Segments are summed in runs of what the sums hold before they are closed.
template <class Level, simd::Codes Kind>
inline constexpr bool w4_in_runs = simd::CodeSums<Level, Kind>::most < w4_block;
// Segments of so many slots have tiles of their own: GGUF's. At AVX2, where their gain was measured. (neon_dotprod
// spills sums then: 178 instructions for 1,000 products in place of 161. AVX-512 was not at hand.)
template <class Level, simd::Codes Kind>
inline constexpr index w4_usual_segment = simd::Floats<Level>::size != 8 ? 0
                                          : Kind == simd::Codes::six     ? 16
                                                                         : 32;
template <class Level, simd::Codes Kind> bool w4_segments_are_usual(const W4Weight& w) {
  constexpr index usual = w4_usual_segment<Level, Kind>;
  if constexpr (usual == 0)
    return false;
  else
    return w.group == usual && w.slots % usual == 0;
}

// Codes that are spread once for many rows, where a tile of four takes longer for that than for its products: of 5 and
// 6 bits 0.64 and 0.73 of a tile's time, in L1 (of 4 bits 0.92 to 1.0, from twice the bytes; of named ones 0.97 with 64
// rows and 1.13 with 16, from memory).
template <class Level, simd::Codes Kind>
inline constexpr bool w4_spreads = w4_usual_segment<Level, Kind> != 0 && simd::upper_bits<Kind> != 0;

// There are registers for the sums of a tile and for its totals, which are loaded and stored elsewhere.
template <class Level> inline constexpr int w4_sums_beside_totals = simd::Floats<Level>::size == 16 ? 12 : 0;

// total[r][c] of a tile of R rows and C registers; the words of register c begin at words[c], spread or as they are.
// Out of line: totals that have no registers must not get two places in memory.
//
// (AVX-512: all conversions, then all products, then all sums, 6 x 2: no difference; what follows a row right behind
// its last product: 0.8 of the speed.)
//
// Segment: slots of every segment, or 0. Where it is known there is no branch from its first word to its total, and GCC
// 12 keeps all sums in registers (of the same loop in a lambda, or bounded by a min, it does not, 1.2 to 1.5 of the
// time). The time of such a tile as a part of the other's, in L1, medians of 41 by turns (Zen 3, 4864 slots):
//
//           4 bits   offsets   5 bits   6 bits, of 16   8 bits   named
//   4 rows   0.85     0.87      0.85        0.87         0.96     0.93
//   3        0.93
//   2        0.90
//
// 4 rows of 4 bits: 62 cycles a group of 32, whose 184 operations would take 56 at 3.3 a cycle. (Runs of groups of 128,
// unrolled so: 0.87 to 1.07, by where the data lie.)
template <class Level, simd::Codes Kind, int R, int C, bool Offsets, index Segment, bool Spread, bool NextJob>
__attribute__((noinline)) void w4_int8_tile(const W4Bytes& x, TileOfRows tile, const std::uint8_t* const* words,
                                            const W4Weight& w, const W4Scales& scales, index channel, float* total,
                                            [[maybe_unused]] W4Ahead& ahead) {
  using F = simd::Floats<Level>;
  using Sums = simd::CodeSums<Level, Kind>;
  constexpr int in_panel = Panels<Level, 1>::count;
  // Of the first register in its panel.
  [[maybe_unused]] const index place = C % in_panel == 0 ? 0 : channel / F::size % in_panel;
  const simd::CodeTable<Level, Kind> table(w.named);
  constexpr index most = Sums::most / simd::codes_of_word<Kind>;
  const std::uint8_t* from[C];
  simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA { from[c] = words[c]; });
  // Not members: those would be loaded again behind every store of a total.
  const float *const step_of = x.step, *const sum_of = x.sum;
  const std::int32_t *const start_of = x.start, *const words_of = x.segment_words;
  const std::int8_t* bytes = x.words(tile);
  [[maybe_unused]] const std::uint8_t* asked = ahead.at;
  [[maybe_unused]] const index stride = ahead.stride;
  index at = x.of_segments(tile);  // of the segment's first row; `channel` goes along
  constexpr bool in_registers = R * C <= w4_sums_beside_totals<Level>;
  simd::Register<Level> all[R * C];  // bare: GCC 12 keeps an array of Floats in memory as well
  if constexpr (in_registers)
    simd::unroll<R * C>([&](auto i) INLAY_INLINE_LAMBDA { all[i] = F().v; });
  else
    for (int i = 0; i < R * C; ++i) F().store(total + i * F::size);
  for (index segment = 0; segment < x.segments; ++segment) {
    Sums dots[R * C];
    const auto each = [&](auto&& run) INLAY_INLINE_LAMBDA {  // unroll<R * C> is a loop where it is long
      simd::unroll<R>([&](auto r) INLAY_INLINE_LAMBDA {
        simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA { run(dots[r * C + c]); });
      });
    };
    simd::unroll<R>([&](auto r) INLAY_INLINE_LAMBDA {
      const std::int32_t start = Offsets ? 0 : start_of[at + r];
      simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA { dots[r * C + c] = Sums(start); });
    });
    const auto multiply = [&]() INLAY_INLINE_LAMBDA {  // a word of each channel
      simd::StepWords<Level, Kind> word[C];
      if constexpr (!Spread)
        simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA {
          if (c % in_panel == 0) __builtin_prefetch(NextJob ? asked : from[c] + w4_prefetch, 0, 2);
          if constexpr (NextJob && c % in_panel == 0) asked += stride;
          word[c] = simd::load_words<Level, Kind>(from[c], (place + c) % in_panel);
          from[c] += w4_step_bytes(simd::bits_of<Kind>);
        });
      const auto rows = simd::RowInputs<Level, Kind, R>::load(bytes);
      simd::unroll<Sums::parts>([&](auto h) INLAY_INLINE_LAMBDA {
        simd::CodePart<Level> codes[C];
        simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA {
          if constexpr (Spread)
            codes[c] = simd::CodePart<Level>::load(from[c] + h * SpreadCodes<Level, Kind>::part_bytes);
          else
            codes[c] = simd::code_part<Kind, h>(word[c], table);
        });
        simd::unroll<R>([&](auto r) INLAY_INLINE_LAMBDA {
          const auto inputs = rows.template row<r, h>();
          simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA { dots[r * C + c].template add<h>(codes[c], inputs); });
        });
      });
      if constexpr (Spread)
        simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA { from[c] += SpreadCodes<Level, Kind>::word_bytes; });
      bytes += R * Sums::word_bytes;
    };
    if constexpr (Segment != 0) {
      constexpr int all = Segment / simd::codes_of_word<Kind>, of_run = all < most ? all : most;
      INLAY_UNROLL
      for (int run = 0; run < all / of_run; ++run) {
        each([](Sums& dot) INLAY_INLINE_LAMBDA { dot.open(); });
        INLAY_UNROLL
        for (int word = 0; word < of_run; ++word) multiply();
        each([](Sums& dot) INLAY_INLINE_LAMBDA { dot.close(); });
      }
    } else {
      // Runs of what the sums hold before they are closed. The first of them and the first words of each by themselves:
      // they are not added to zeros.
      index left = words_of[segment];
      const auto end_of_run = [&]() INLAY_INLINE_LAMBDA {
        return bytes + (!w4_in_runs<Level, Kind> || left < most ? left : most) * R * Sums::word_bytes;
      };
      const std::int8_t* end = end_of_run();
      each([](Sums& dot) INLAY_INLINE_LAMBDA { dot.open(); });
      multiply();
      while (bytes < end) multiply();
      each([](Sums& dot) INLAY_INLINE_LAMBDA { dot.close(); });
      if constexpr (w4_in_runs<Level, Kind>)
        while ((left -= most) > 0) {
          end = end_of_run();
          each([](Sums& dot) INLAY_INLINE_LAMBDA { dot.open(); });
          multiply();
          while (bytes < end) multiply();
          each([](Sums& dot) INLAY_INLINE_LAMBDA { dot.close(); });
        }
    }
    float* const totals = simd::opaque(total);  // or they are kept in other memory meanwhile, and stored to both
    // What rows or columns share is loaded once: at two loads a cycle (Zen 5) those of the words take 40 of the 64
    // cycles of a group of 32 already.
    F of_c[C], offset_of_c[C];
    simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA {
      of_c[c] = simd::opaque<Level>(F::load(scales.scale + channel + c * F::size));
      if constexpr (Offsets) offset_of_c[c] = simd::opaque<Level>(F::load(scales.offset + channel + c * F::size));
    });
    simd::unroll<R>([&](auto r) INLAY_INLINE_LAMBDA {
      const F step = simd::opaque<Level>(F(step_of[at + r])), sum = F(Offsets ? sum_of[at + r] : 0);
      const std::int32_t late = Offsets ? 0 : start_of[at + r];
      simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA {
        const F dot = dots[r * C + c].to_floats(late);
        if constexpr (in_registers) {
          auto& of_rc = all[r * C + c];
          of_rc = w4_add<Offsets>(F(of_rc), dot, of_c[c], offset_of_c[c], sum, step).v;
        } else {
          float* const to = totals + (r * C + c) * F::size;
          w4_add<Offsets>(F::load(to), dot, of_c[c], offset_of_c[c], sum, step).store(to);
        }
      });
    });
    at += R, channel += W4Scales::width;
  }
  if constexpr (NextJob) ahead.at = asked;
  if constexpr (in_registers)
    simd::unroll<R * C>([&](auto i) INLAY_INLINE_LAMBDA { F(all[i]).store(total + i * F::size); });
}

}  // namespace inlay::cpu
