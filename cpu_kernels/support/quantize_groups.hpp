// The scales and zero points of one row, whatever their granularity: shared by quantize and dequantize.
#pragma once

#include <inlay/core/view.hpp>

#include "cpu_kernels/support/elements.hpp"
#include "cpu_kernels/support/min.hpp"

namespace inlay::cpu {

// The scale or zero point row that serves row t.
INLAY_INLINE index group_of(index groups, index t, index group) { return group > 0 ? t / group : groups == 1 ? 0 : t; }

// The first lane in all of them. It has the sign of a zero too, which a sum with zeros would lose.
template <class F> INLAY_INLINE F first_lane(F v) {
  float lanes[F::size];
  v.store(lanes);
  return F(lanes[0]);
}

// visit(i, n, scale, zero) for the columns i .. i + n of row t, a register at a time.
template <class Level, class Visit>
INLAY_INLINE void for_each_scale(const ConstView<2>& scale, const ConstView<2>& zero, index t, index row_group,
                                 index column_group, index cols, Visit&& visit) {
  using F = simd::Floats<Level>;
  const index row = group_of(scale.extents[0], t, row_group);
  const index scales = row * scale.strides[0], zeros = row * zero.strides[0];
  const auto scale_at = [&](index i, index n) { return load_elements<Level>(scale.data, scale.dtype, scales + i, n); };
  const auto zero_at = [&](index i, index n) {
    return zero.present() ? load_elements<Level>(zero.data, zero.dtype, zeros + i, n) : F();
  };
  const bool each = column_group == 1 || (column_group == 0 && scale.extents[1] != 1);
  const index run = each ? cols : column_group == 0 ? cols : column_group;
  for (index first = 0, group = 0; first < cols; first += run, ++group) {
    const index last = cols - first < run ? cols : first + run;
    F s, z;
    if (!each) {
      s = first_lane(scale_at(group, 1));
      z = first_lane(zero_at(group, 1));
    }
    for (index i = first; i < last; i += F::size) {
      const index n = min(last - i, F::size);
      if (each) {
        s = scale_at(i, n);
        z = zero_at(i, n);
      }
      visit(i, n, s, z);
    }
  }
}

}  // namespace inlay::cpu
