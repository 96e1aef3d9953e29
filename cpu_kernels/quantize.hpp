// One row: the static form reads x once; the dynamic form reads it twice, the second time from the
// cache. Bytes: read x, write y. One division an element: a product with 1 / s would round twice and
// put ties on the wrong side, and VDIVPS keeps up with memory (4 bytes a lane in 10 cycles of 16).
#pragma once

#include <limits>

#include <inlay/cpu.hpp>
#include <inlay/ops/quantize.hpp>

#include "cpu_kernels/support/elements.hpp"
#include "cpu_kernels/support/kernels.hpp"
#include "cpu_kernels/support/min.hpp"
#include "cpu_kernels/support/quantize_groups.hpp"

namespace inlay::cpu {

// round(x / scale) as a number that any zero point moves into or out of the range for good; NaN is 0.
template <class F> INLAY_INLINE F rounded_quotient(F x, F scale) {
  constexpr float far = 512;
  const F limited = min(F(far), max(F(-far), round(x / scale)));  // the second operand is the NaN
  return select(abs(limited) < F(2 * far), limited, F());
}

// What the numbers of a row span, zero included. `holds_nan` covers infinities.
struct RowRange {
  float low, high;
  bool holds_nan;
};

template <class Level> RowRange row_range(const void* x, DType type, index at, index cols) {
  using F = simd::Floats<Level>;
  F low, high, probe;
  for (index i = 0; i < cols; i += F::size) {
    const F v = load_elements<Level>(x, type, at + i, min(cols - i, F::size));
    low = min(v, low);
    high = max(v, high);
    probe = probe + v * F();  // NaN times zero and infinity times zero are NaN
  }
  const float sum = reduce_sum(probe);
  return {reduce_min(low), reduce_max(high), sum != sum};
}

struct RowScale {
  float scale, zero;
};

// The dynamic scale of a row, and the zero point of the asymmetric form.
INLAY_INLINE RowScale dynamic_scale(RowRange range, DType type, bool asymmetric) {
  const bool narrow = type == DType::i4 || type == DType::u4;
  if (range.holds_nan) return {__builtin_nanf(""), 0};
  if (!asymmetric) {
    const float largest = -range.low > range.high ? -range.low : range.high;
    return {largest / (narrow ? 7.0f : 127.0f), 0};
  }
  const float lowest = type == DType::i8 ? -128.0f : type == DType::i4 ? -8.0f : 0.0f;
  const float steps = narrow ? 15.0f : 255.0f;
  const float span = range.high - range.low;
  // Of a span beyond f32 the halves.
  const float scale =
      span <= std::numeric_limits<float>::max() ? span / steps : (range.high / 2 - range.low / 2) / (steps / 2);
  if (!(scale > 0)) return {scale, 0};
  const float zero = std::nearbyint(lowest - range.low / scale);
  return {scale, zero < lowest ? lowest : zero > lowest + steps ? lowest + steps : zero};
}

template <class Level> Status quantize(const Parallel& parallel, const Quantize<Host>& op) {
  using F = simd::Floats<Level>;
  const index cols = op.x.extents[1];
  const bool dynamic = op.row_scale.present();
  // Two rows of nibbles, or two of row_zero, may share a byte: tasks get pairs.
  const Work work = static_cast<double>(op.x.size()) * Work{.bytes = 5, .operations = 10};
  parallel.ranges(op.x.extents[0], 2, work, [&](index begin, index end) {
    for (index t = begin; t < end; ++t) {
      const index from = t * op.x.strides[0], to = t * op.y.strides[0];
      const auto put = [&](index i, index n, F scale, F zero) {
        const F v = load_elements<Level>(op.x.data, op.x.dtype, from + i, n);
        store_elements<Level>(rounded_quotient(v, scale) + zero, op.y.data, op.y.dtype, to + i, n);
      };
      if (dynamic) {
        const RowRange range = row_range<Level>(op.x.data, op.x.dtype, from, cols);
        const RowScale row = dynamic_scale(range, op.y.dtype, op.row_zero.present());
        op.row_scale.template as<float>()[t] = row.scale;
        if (op.row_zero.present()) store_elements<Level>(F(row.zero), op.row_zero.data, op.row_zero.dtype, t, 1);
        for (index i = 0; i < cols; i += F::size) put(i, min(cols - i, F::size), F(row.scale), F(row.zero));
      } else {
        for_each_scale<Level>(op.scale, op.zero, t, op.row_group, op.column_group, cols, put);
      }
    }
  });
  return {};
}

template <> struct Kernels<Quantize<Host>> {
  template <class Level> static Status compute(const Parallel& parallel, const Quantize<Host>& op, Workspace) {
    return quantize<Level>(parallel, op);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const Quantize<Host>&) { return 0; }
};

}  // namespace inlay::cpu
