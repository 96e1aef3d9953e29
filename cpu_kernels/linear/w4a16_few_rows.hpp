// exact_float, one row and few. Memory is the limit of one: each word of codes is read once and turned into floats in
// registers, where all rows meet it. Bytes: codes, scales, zeros.
//
//   x, rows side by side        s0: r0 .. rR | s1: r0 .. rR | ..
//
// What a register of codes costs: a mask (and a shift or a conversion) and an fma a row. With four rows that is as much
// time as memory takes to bring the codes, with eight twice as much.
#pragma once

#include "cpu_kernels/linear/w4a16_panels.hpp"
#include "cpu_kernels/linear/w4a16_range.hpp"
#include "cpu_kernels/simd/fast_subnormals.hpp"

namespace inlay::cpu {

// total[R][16P] = the sums of R rows over the panels from `first` on; x [slots][R], sums [segments][R], all of them
// times their rows' powers. A sum takes the slots of its segment one after the other, beside whatever rows: that is a
// part of the numbers. (As RegisterTiles, `sum` and `all` made four and eight rows 2% slower at AVX-512, and four
// rows 4 to 10% at AVX2, with g++ 12.)
template <class Level, simd::CodeForm Form, simd::Codes Kind, int P, int R>
void w4_row(const W4Weight& w, index first, const float* x, const float* sums, float* total) {
  using F = simd::Floats<Level>;
  constexpr int count = Panels<Level, P>::count;
  const Panels<Level, P> panels(w, first);
  simd::Register<Level> all[R][count];
  const auto each = [&](auto&& run) INLAY_INLINE_LAMBDA {
    simd::unroll<R>([&](auto r)
                        INLAY_INLINE_LAMBDA { simd::unroll<count>([&](auto v) INLAY_INLINE_LAMBDA { run(r, v); }); });
  };
  each([&](auto r, auto v) INLAY_INLINE_LAMBDA { all[r][v] = F().v; });
  for (index begin = 0; begin < w.slots; begin += w4_block)
    for_each_segment(begin, w.block_end(begin), w.group, [&](index s, index stop, index g) INLAY_INLINE_LAMBDA {
      simd::Register<Level> sum[R][count];
      each([&](auto r, auto v) INLAY_INLINE_LAMBDA { sum[r][v] = F().v; });
      for_each_code<Level, Form, Kind>(w, panels, s, stop, [&](auto v, F codes, index at) INLAY_INLINE_LAMBDA {
        simd::unroll<R>([&](auto r) INLAY_INLINE_LAMBDA { sum[r][v] = fma(codes, F(x[at * R + r]), F(sum[r][v])).v; });
      });
      const auto add = [&](auto v, F scale, F offset) INLAY_INLINE_LAMBDA {
        simd::unroll<R>([&](auto r) INLAY_INLINE_LAMBDA {
          all[r][v] = fma(offset, F(sums[r]), fma(F(sum[r][v]), scale, F(all[r][v]))).v;
        });
      };
      if constexpr (R == 1) {
        panels.for_each_scale(w, g, add);
      } else {  // rows share the time that memory takes, and their code the choices of types
        float scale[count * F::size], offset[count * F::size];
        panels.copy_scales(w, g, scale, offset);
        simd::unroll<count>(
            [&](auto v) INLAY_INLINE_LAMBDA { add(v, F::load(scale + v * F::size), F::load(offset + v * F::size)); });
      }
      sums += R;
    });
  each([&](auto r, auto v) INLAY_INLINE_LAMBDA { F(all[r][v]).store(total + (r * count + v) * F::size); });
}

// The rows of x, padded to a power of two.
INLAY_INLINE index w4_padded_few(index rows) { return rows <= 2 ? rows : rows <= 4 ? 4 : 8; }

template <class Level, simd::CodeForm Form, simd::Codes Kind, int R>
void w4_few_rows(const Parallel& parallel, const LinearW4a16<Host>& op, Workspace workspace) {
  const W4Weight w(op);
  WorkspaceCutter cutter(workspace);
  const index rows = op.x.extents[0], padded = w.steps * simd::codes_of_word<Kind>;
  float* x = cutter.take<float>(R * padded);
  float* sums = cutter.take<float>(R * w.segments());
  float back[R];
  w4_prepare_tile<Level>(op, w, W4Powers::of<Form, Kind>(), 0, R, x, sums, back);
  for (index i = R * w.slots; i < R * padded; ++i) x[i] = 0;
  // A narrow layer is cut finer, for the threads.
  constexpr int wide = w4_row_panels(simd::Floats<Level>::size, R), narrow = wide < 2 ? wide : 2;
  const auto run = [&]<int P>(std::integral_constant<int, P>) {
    w4_each_run(parallel, groups_of(w.panels, P), w.work(rows), [&](index begin, index end) {
      const fp::KeepSubnormals mode;
      for (index job = begin; job < end; ++job) {
        float total[R * P * w4_panel];
        w4_row<Level, Form, Kind, P, R>(w, job * P, x, sums, total);
        w4_store<Level>(op, 0, rows, job * P * w4_panel, P * w4_panel, total, P * w4_panel, back);
      }
    });
  };
  if (w.panels >= wide * parallel.width)
    run(std::integral_constant<int, wide>{});
  else
    run(std::integral_constant<int, narrow>{});
}

}  // namespace inlay::cpu
