// One pass. Bytes: read x, write y, which reads its lines first.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/dequantize.hpp>

#include "cpu_kernels/support/elements.hpp"
#include "cpu_kernels/support/kernels.hpp"
#include "cpu_kernels/support/quantize_groups.hpp"

namespace inlay::cpu {

template <class Level> Status dequantize(const Parallel& parallel, const Dequantize<Host>& op) {
  using F = simd::Floats<Level>;
  const Work work = static_cast<double>(op.x.size()) * Work{.bytes = 5, .operations = 5};
  parallel.ranges(op.x.extents[0], 1, work, [&](index begin, index end) {
    for (index t = begin; t < end; ++t) {
      const index from = t * op.x.strides[0], to = t * op.y.strides[0];
      for_each_scale<Level>(op.scale, op.zero, t, op.row_group, op.column_group, op.x.extents[1],
                            [&](index i, index n, F scale, F zero) {
                              const F v = load_elements<Level>(op.x.data, op.x.dtype, from + i, n);
                              store_elements<Level>((v - zero) * scale, op.y.data, op.y.dtype, to + i, n);
                            });
    }
  });
  return {};
}

template <> struct Kernels<Dequantize<Host>> {
  template <class Level> static Status compute(const Parallel& parallel, const Dequantize<Host>& op, Workspace) {
    return dequantize<Level>(parallel, op);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const Dequantize<Host>&) { return 0; }
};

}  // namespace inlay::cpu
