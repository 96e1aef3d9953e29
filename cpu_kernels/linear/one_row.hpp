// One row of x, or two, over a packed weight where a register holds a panel's channels: memory is the limit, and where
// it is slow it likes few streams. One panel after the other is one, and a line of it is asked for 10 KB ahead:
//
//   panel 0 | block of k | block of k | .. | panel 1 | block of k | ..
//
// The numbers are those of any tile: a chain of fma over each block of k, added to the blocks before it.
//
// GB/s, and between these of reading the same bytes and of four panels side by side (Zen 5, two threads, 180 to 270 MB,
// medians of 9 to 21 by turns):
//
//                        896 inputs           2048 inputs          8192 inputs
//   bf16, dot product    59.7, 57.8, 40.1     35.9, 34.8, 31.1     34.2, 33.8, 31.1
//     two rows           40.1, 39.2, 34.4     31.8, 31.0, 26.0
//   bf16, fma            38.1, 36.5, 33.5     37.9, 33.7, 33.2
//   f16                  39.1, 38.2, 32.7     35.0, 34.7, 31.0
//   f32                  35.7, 35.4, 32.3     32.9, 32.5, 29.3
//
// From L2 it is 0.9 of four panels' speed. Two blocks of k at once, which hide the latency of fma, are as fast there as
// those, and from memory 33.3 where this is 35.9. Asked for 6 KB ahead: 57.0, 34.1, 34.5 in the first row.
#pragma once

#include "cpu_kernels/linear/tile.hpp"
#include "cpu_kernels/support/min.hpp"

namespace inlay::cpu {

inline constexpr index linear_row_ahead = 10 * 1024;  // bytes
// Panels that a thread takes at a time: what one asks for behind its end is the next one's beginning.
inline constexpr index linear_row_panels = 32;

inline constexpr int linear_row_most = 2;  // rows of x
template <class Level> constexpr bool linear_streams(index rows) {
  return simd::Floats<Level>::size == linear_panel && rows <= linear_row_most;
}

// sums[r][16] = x * panel, over all k.
template <class Level, class Kind, int Rows>
void linear_row(const typename PackedXOf<Kind>::Element* x, const typename PanelOf<Kind>::Element* panel, index k,
                float* sums) {
  using F = simd::Floats<Level>;
  constexpr index of_step = step_of<Kind> * linear_panel;
  simd::RegisterTile<Level, Rows, 1> total;
  for (index begin = 0; begin < k; begin += linear_k_block) {
    const index steps = min(k - begin, linear_k_block) / step_of<Kind>;
    const typename PanelOf<Kind>::Element* const w[] = {panel + begin * linear_panel};
    simd::RegisterTile<Level, Rows, 1> tile;
    for (index s = 0; s < steps; ++s) {
      const char* const ahead = reinterpret_cast<const char*>(w[0] + s * of_step) + linear_row_ahead;
      __builtin_prefetch(ahead, 0, 2);
      if constexpr (step_lines<Kind> == 2) __builtin_prefetch(ahead + 64, 0, 2);
      multiply_step<Level, Kind>(tile, w, x + begin * Rows / x_step<Kind>, s);
    }
    tile.each([&](int r, int, F sum) INLAY_INLINE_LAMBDA { total.sum[r][0] = (F(total.sum[r][0]) + sum).v; });
  }
  total.each([&](int r, int, F sum) INLAY_INLINE_LAMBDA { sum.store(sums + r * linear_panel); });
}

}  // namespace inlay::cpu
