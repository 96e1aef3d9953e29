// One pass over memory: read x, write y. Written once over the SIMD primitives; a kernel knows no
// threads, does not allocate and keeps no state.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/skeleton.hpp>

#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/support/dtypes.hpp"
#include "cpu_kernels/support/kernels.hpp"
#include "cpu_kernels/support/min.hpp"

namespace inlay::cpu {

template <class Level, class T> void skeleton_row(const T* x, const float* intercept, T* y, index dim, float slope) {
  using F = simd::Floats<Level>;
  for (index i = 0; i < dim; i += F::size) {
    const index n = min(dim - i, F::size);  // the last step takes what is left
    fma(F::load(x + i, n), F(slope), intercept ? F::load(intercept + i, n) : F()).store(y + i, n);
  }
}

template <class Level> Status skeleton(const Parallel& parallel, const Skeleton<Host>& op) {
  with_float(op.x.dtype, [&]<class T>(Type<T>) {
    const float* intercept = op.intercept.present() ? op.intercept.template as<float>() : nullptr;
    const Work work = static_cast<double>(op.x.size()) * Work{.bytes = 2 * sizeof(T), .operations = 2};
    parallel.ranges(op.x.extents[0], 1, work, [&](index begin, index end) {
      for (index t = begin; t < end; ++t)
        skeleton_row<Level>(op.x.template as<T>() + t * op.x.strides[0], intercept,
                            op.y.template as<T>() + t * op.y.strides[0], op.x.extents[1], op.slope);
    });
  });
  return {};
}

template <> struct Kernels<Skeleton<Host>> {
  template <class Level> static Status compute(const Parallel& parallel, const Skeleton<Host>& op, Workspace) {
    return skeleton<Level>(parallel, op);
  }
  // Bytes of scratch that compute() needs: cut them from the workspace with WorkspaceCutter.
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const Skeleton<Host>&) { return 0; }
};

}  // namespace inlay::cpu
