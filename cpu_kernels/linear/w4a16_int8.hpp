// int8_activations: a segment of x (slots of one group inside one block of 128) becomes signed bytes
// with one scale, max|x| / 127, and its dot product with the codes is exact in int32:
//
//   y[t,n] = sum over segments  step_x * (scale * sum(q * xq) + offset * sum(xq))
//
// Bytes of x lie in the order of CodeBytes, padded with zeros to whole words:
//
//   xq [rows][steps][32 / bits]   step [rows][segments]   sum [rows][segments]
#pragma once

#include "cpu_kernels/linear/w4a16_weight.hpp"

namespace inlay::cpu {

struct W4Activations {
  index row_bytes, segments;
  std::int8_t* bytes = nullptr;
  float *step = nullptr, *sum = nullptr;
};

template <class Level> std::size_t w4_int8_bytes(const LinearW4a16<Host>& op) {
  const index rows = op.x.extents[0], per_word = 32 / op.bits;
  const index segments = w4_segments(op.slots(), op.scales.extents[1]);
  return WorkspaceCutter::padded<std::int8_t>(rows * op.codes.extents[1] * per_word) +
         2 * WorkspaceCutter::padded<float>(rows * segments);
}

// Rounds row `t`. NaN makes its sum NaN, infinity too, since the reciprocal of its step is 0; and the sum all results.
template <class Level, int Bits, class T>
void w4_quantize_row(const W4Weight& w, const T* x, const W4Activations& to, index t) {
  using F = simd::Floats<Level>;
  constexpr index per_word = 32 / Bits;
  std::int8_t* bytes = to.bytes + t * to.row_bytes;
  float *step = to.step + t * to.segments, *sum = to.sum + t * to.segments;
  for (index begin = 0; begin < w.slots; begin += w4_block)
    for_each_segment(begin, w.block_end(begin), w.group, [&](index s, index stop, index) INLAY_INLINE_LAMBDA {
      // Whole words, and whole pairs of registers: the rest is zero.
      float values[w4_block] = {};
      if (w.perm)
        for (index i = s; i < stop; ++i) values[i - s] = w.perm[i] < 0 ? 0 : static_cast<float>(x[w.perm[i]]);
      F largest;
      for (index i = 0; i < stop - s; i += F::size) {
        const index n = stop - s - i < F::size ? stop - s - i : F::size;
        const F value = w.perm ? F::load(values + i) : n == F::size ? F::load(x + s + i) : F::load(x + s + i, n);
        value.store(values + i);
        largest = max(largest, abs(value));
      }
      const float scale = reduce_max(largest) / 127;
      const F inverse(scale >= 0x1p-126f ? 1 / scale : 0);  // 1 / subnormal may be infinite
      *step++ = scale;
      F total;
      std::int8_t rounded[w4_block];
      for (index i = 0; i < stop - s; i += F::size) {
        const F value = round(F::load(values + i) * inverse);
        total = total + value;
        value.store_i8(rounded + i);
      }
      *sum++ = reduce_sum(total);
      for (index i = 0; i < stop - s; i += per_word)
        for (index j = 0; j < per_word; ++j)
          bytes[s + i + simd::activation_place<Bits>(j)] = i + j < stop - s ? rounded[i + j] : std::int8_t{0};
    });
}

// total[r][0 .. 16P) of R rows from `t` on.
template <class Level, int Bits, int R, int P>
void w4_int8_rows(const W4Weight& w, const W4Activations& x, index t, index first, float* total) {
  using F = simd::Floats<Level>;
  using Group = Panels<Level, P>;
  constexpr int per_word = 32 / Bits, count = Group::count;
  const Group panels(w, first);
  const std::int8_t* bytes = x.bytes + t * x.row_bytes;
  const float *step = x.step + t * x.segments, *sum = x.sum + t * x.segments;
  F all[R * count];
  for (index begin = 0; begin < w.slots; begin += w4_block)
    for_each_segment(begin, w.block_end(begin), w.group, [&](index s, index stop, index g) INLAY_INLINE_LAMBDA {
      simd::CodeSums<Level> dots[R * count];
      for (; s < stop; s += per_word) {
        const index at = s / per_word * w4_step_bytes;
        // Several rows read most codes from L2, and finding the place would cost them a twentieth.
        const index ahead = at + (R > 1 ? w4_prefetch : panels.further(w4_prefetch, at, w.steps * w4_step_bytes));
        simd::unroll<count>([&](auto v) INLAY_INLINE_LAMBDA {
          const simd::CodeBytes<Level, Bits> codes(panels.template load<3>(v, at, ahead));
          simd::unroll<R>([&](auto r)
                              INLAY_INLINE_LAMBDA { dots[r * count + v].add(codes, bytes + r * x.row_bytes + s); });
        });
      }
      panels.for_each_scale(w, g, [&](auto v, F scale, F offset) INLAY_INLINE_LAMBDA {
        simd::unroll<R>([&](auto r) INLAY_INLINE_LAMBDA {
          const F part = fma(dots[r * count + v].to_floats(), scale, offset * F(sum[r * x.segments]));
          all[r * count + v] = fma(part, F(step[r * x.segments]), all[r * count + v]);
        });
      });
      ++step;
      ++sum;
    });
  simd::unroll<R * count>([&](auto i) INLAY_INLINE_LAMBDA { all[i].store(total + i * F::size); });
}

template <class Level, int Bits>
void w4_int8(const Parallel& parallel, const LinearW4a16<Host>& op, Workspace workspace) {
  constexpr bool wide = simd::Floats<Level>::size == 16;
  constexpr int panels = simd::Floats<Level>::size > 1 ? 4 : 1;
  constexpr int tile = w4_int8_tile_rows, tile_panels = wide ? 2 : 1;  // R * count sums and as many totals
  const W4Weight w(op);
  const index rows = op.x.extents[0], segments = w4_segments(w.slots, w.groups);
  WorkspaceCutter cutter(workspace);
  W4Activations x{.row_bytes = w.steps * (32 / Bits), .segments = segments};
  x.bytes = cutter.take<std::int8_t>(rows * x.row_bytes);
  x.step = cutter.take<float>(rows * segments);
  x.sum = cutter.take<float>(rows * segments);
  parallel.ranges(rows, 1, Work{.bytes = 5.0 * static_cast<double>(rows * w.slots)}, [&](index begin, index end) {
    with_float(op.x.dtype, [&]<class T>(Type<T>) {
      for (index t = begin; t < end; ++t) w4_quantize_row<Level, Bits>(w, op.x.as<T>() + t * op.x.strides[0], x, t);
    });
  });
  // A job's codes stay in L2 while the rows pass by.
  const auto run = [&](index job) {
    float total[tile * panels * w4_panel];
    const index first = job * panels;
    index t = 0;
    for (; t + tile <= rows; t += tile)
      for (index p = first; p < first + panels && p < w.panels; p += tile_panels) {
        w4_int8_rows<Level, Bits, tile, tile_panels>(w, x, t, p, total);
        for (index r = 0; r < tile; ++r)
          w4_store<Level>(op, t + r, p * w4_panel, tile_panels * w4_panel, total + r * tile_panels * w4_panel);
      }
    for (; t < rows; ++t) {
      w4_int8_rows<Level, Bits, 1, panels>(w, x, t, first, total);
      w4_store<Level>(op, t, first * w4_panel, panels * w4_panel, total);
    }
  };
  const index jobs = (w.panels + panels - 1) / panels;
  if (rows > 1) return parallel(jobs, w.work(rows), run);
  w4_each_run(parallel, jobs, w.work(1), [&](index begin, index end) {
    for (index job = begin; job < end; ++job) run(job);
  });
}

}  // namespace inlay::cpu
