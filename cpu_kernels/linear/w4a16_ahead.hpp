// What a tile asks memory for while it multiplies. Where the worker goes on with the next job, that one, in one stream,
// of which each of a job's tiles of rows asks for its share:
//
//   job        | p0 | p1 | p2 | p3 |                       read side by side, or two by two; by each tile
//   asked for                      | p4 p5 p6 p7 |         in order: | tile 0 | tile 1 | tile 2 |
//
// Elsewhere, or where a job is large, each panel's own words further on.
//
// From memory, 4 bits, of the speed of reading (Zen 5, two threads, medians of seven by turns with each panel's own):
//
//            896 inputs     2048 inputs    4864 inputs    8192 inputs    14336 inputs
//   4 rows   0.93 (0.75)    0.95 (0.87)    0.90 (0.86)    0.88 (0.95)    0.80 (0.97)
//   8 rows   0.89 (0.65)    0.79 (0.57)    0.91 (0.77)    0.75 (0.75)    0.73 (0.75)
//
// By more tiles, of the int8 peak:
//
//            2048 inputs    8192 inputs    14336 inputs
//   9 rows   0.48 (0.37)
//   12       0.54 (0.40)
//   16       0.54 (0.44)    0.50 (0.50)    0.53 (0.50)
//   32       0.56 (0.50)    0.62 (0.60)    0.51 (0.49)
//
// Eight texts of Q4_0, qwen2.5-0.5b and llama3.2-1b: 610 -> 754 and 287 -> 367 tok/s.
#pragma once

#include "cpu_kernels/linear/w4a16_bytes.hpp"

namespace inlay::cpu {

// How far a job's tiles have come in asking for the next one, and how far a word takes them on.
struct W4Ahead {
  const std::uint8_t* at;
  index stride;
};

// Of a job of so many tiles of rows. (One tile for both, which finds out as it runs: prefill of llama3.2-1b, Q4_0,
// 584 -> 549 tok/s.)
template <class Level> bool w4_asks_for_next_job(const W4Weight& w, index tiles) {
  if constexpr (simd::Floats<Level>::size != 16) return false;  // AVX2 and NEON were not measured with it
  const index most = tiles == 1 ? w4_ahead_of_one_tile : w4_ahead_of_tiles;
  return w4_int8_job_panels * w.steps * w.step_bytes <= most;
}

}  // namespace inlay::cpu
