// Bytes: a and b read, y written. One flop an element: memory is the limit everywhere.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/add.hpp>

#include "cpu_kernels/support/elementwise.hpp"
#include "cpu_kernels/support/kernels.hpp"

namespace inlay::cpu {

template <class Level, class A, class B> void add_row(const A* a, const B* b, A* y, index begin, index end) {
  using F = simd::Floats<Level>;
  registers<F>(begin, end, [&](index i, auto n) { store(load<F>(a + i, n) + load<F>(b + i, n), y + i, n); });
}

template <class Level> Status add(const Parallel& parallel, const Add<Host>& op) {
  const index b_step = op.b.extents[0] == 1 ? 0 : op.b.strides[0];
  with_float(op.a.dtype, [&]<class A>(Type<A>) {
    with_float(op.b.dtype, [&]<class B>(Type<B>) {
      constexpr Work element{.bytes = 2 * sizeof(A) + sizeof(B), .operations = 1};
      row_pieces(parallel, op.a.extents[0], op.a.extents[1], element, [&](index t, index begin, index end) {
        add_row<Level>(row_of<A>(op.a, t), op.b.template as<B>() + t * b_step, row_of<A>(op.y, t), begin, end);
      });
    });
  });
  return {};
}

template <> struct Kernels<Add<Host>> {
  template <class Level> static Status compute(const Parallel& parallel, const Add<Host>& op, Workspace) {
    return add<Level>(parallel, op);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const Add<Host>&) { return 0; }
};

}  // namespace inlay::cpu
