// What a tile asks memory for while it multiplies. Where it has all rows of a call, the next job, in one stream:
//
//   job        | p0 | p1 | p2 | p3 |                       read side by side, or two by two
//   asked for                      | p4 p5 p6 p7 |         in order
//
// Where more tiles pass by the panels, which stay in the second-level cache, or a job is large beside that, each
// panel's own words further on.
//
// From memory, 4 bits, of the speed of reading (Zen 5, two threads, medians of seven by turns with each panel's own):
//
//            896 inputs     2048 inputs    4864 inputs    8192 inputs    14336 inputs
//   4 rows   0.93 (0.75)    0.95 (0.87)    0.90 (0.86)    0.88 (0.95)    0.80 (0.97)
//   8 rows   0.89 (0.65)    0.79 (0.57)    0.91 (0.77)    0.75 (0.75)    0.73 (0.75)
//
// Eight texts of Q4_0, qwen2.5-0.5b and llama3.2-1b: 610 -> 754 and 287 -> 367 tok/s. With more tiles the next job is
// often another thread's.
#pragma once

#include "cpu_kernels/linear/w4a16_bytes.hpp"

namespace inlay::cpu {

// (One tile for both, which finds out as it runs: prefill of llama3.2-1b, Q4_0, 584 -> 549 tok/s.)
template <class Level> bool w4_asks_for_next_job(const W4Weight& w, index rows) {
  if constexpr (simd::Floats<Level>::size != 16) return false;  // AVX2 and NEON were not measured with it
  return rows <= w4_int8_tiles<Level>.full && w4_int8_job_panels * w.steps * w.step_bytes <= w4_ahead_most;
}

}  // namespace inlay::cpu
