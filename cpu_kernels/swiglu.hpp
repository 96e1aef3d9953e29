// Bytes: gate and up read, y written. About 25 flops an element: memory is the limit outside L2.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/swiglu.hpp>

#include "cpu_kernels/simd/sigmoid.hpp"
#include "cpu_kernels/support/elementwise.hpp"
#include "cpu_kernels/support/kernels.hpp"

namespace inlay::cpu {

template <class Level, class T>
void swiglu_row(const T* gate, const T* up, T* y, index begin, index end, float alpha, float limit, float offset) {
  using F = simd::Floats<Level>;
  registers<F>(begin, end, [&](index i, auto n) {
    // min and max return their second operand where one is NaN: NaN passes the clamp.
    const F g = min(F(limit), load<F>(gate + i, n));
    const F u = max(F(-limit), min(F(limit), load<F>(up + i, n)));
    store(g * simd::sigmoid(F(alpha) * g) * (u + F(offset)), y + i, n);
  });
}

template <class Level> Status swiglu(const Parallel& parallel, const Swiglu<Host>& op) {
  with_float(op.gate.dtype, [&]<class T>(Type<T>) {
    constexpr Work element{.bytes = 3 * sizeof(T), .operations = 25};
    row_pieces(parallel, op.gate.extents[0], op.gate.extents[1], element, [&](index t, index begin, index end) {
      swiglu_row<Level>(row_of<T>(op.gate, t), row_of<T>(op.up, t), row_of<T>(op.y, t), begin, end, op.alpha, op.limit,
                        op.up_offset);
    });
  });
  return {};
}

template <> struct Kernels<Swiglu<Host>> {
  template <class Level> static Status compute(const Parallel& parallel, const Swiglu<Host>& op, Workspace) {
    return swiglu<Level>(parallel, op);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const Swiglu<Host>&) { return 0; }
};

}  // namespace inlay::cpu
