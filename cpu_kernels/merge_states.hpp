// Bytes: every part is read once, out written; one fma an element read. Memory is the limit.
//
// The shares of a row come first, into a table of one f32 for each element of partial_lse, so that the
// sweep over head_dim keeps one register of out and meets no exponential:
//
//   share[t,h,s] = exp(lse_s - m) / sum      or `merge_unseen` where lse_s is -inf: that part is not read
#pragma once

#include <inlay/core/workspace.hpp>
#include <inlay/cpu.hpp>
#include <inlay/ops/merge_states.hpp>

#include <limits>

#include "cpu_kernels/support/elementwise.hpp"
#include "cpu_kernels/support/kernels.hpp"

namespace inlay::cpu {

inline constexpr float merge_unseen = -1;  // no share is negative

// The shares of the states in row (t, h), and its lse.
INLAY_INLINE float merge_shares(const ConstView<3>& partial_lse, index t, index h, float* share) {
  constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
  const float* const lse = partial_lse.as<float>() + offset(partial_lse, 0, t, h);
  const index states = partial_lse.extents[0], step = partial_lse.strides[0];
  float m = minus_infinity, sum = 0;
  for (index s = 0; s < states; ++s) m = lse[s * step] > m ? lse[s * step] : m;
  for (index s = 0; s < states; ++s) {
    const bool seen = lse[s * step] != minus_infinity;
    share[s] = seen ? __builtin_expf(lse[s * step] - m) : merge_unseen;
    sum += seen ? share[s] : 0;
  }
  const float inverse = 1 / sum;  // of no use, and not used, where nothing was seen
  for (index s = 0; s < states; ++s)
    if (share[s] != merge_unseen) share[s] *= inverse;
  return sum == 0 ? minus_infinity : m + __builtin_logf(sum);
}

// Tried with 16 parts, where memory gives half of what it gives 2: eight registers of out at a time, and
// prefetching 512 to 4096 bytes on. Neither helped.
template <class Level, class T, class Y>
void merge_row(const T* part, index step, const float* share, index states, index dim, Y* out) {
  using F = simd::Floats<Level>;
  registers<F>(0, dim, [&](index i, auto n) {
    F sum;
    for (index s = 0; s < states; ++s)
      if (share[s] != merge_unseen) sum = fma(F(share[s]), load<F>(part + s * step + i, n), sum);
    store(sum, out + i, n);
  });
}

INLAY_INLINE std::size_t merge_states_scratch(const MergeStates<Host>& op) {
  return WorkspaceCutter::padded<float>(op.partial_lse.size());
}

template <class Level> Status merge_states(const Parallel& parallel, const MergeStates<Host>& op, Workspace workspace) {
  const index states = op.partial_out.extents[0], heads = op.partial_out.extents[2], dim = op.partial_out.extents[3];
  float* const table = WorkspaceCutter(workspace).take<float>(op.partial_lse.size());
  with_float(op.partial_out.dtype, [&]<class T>(Type<T>) {
    with_float(op.out.dtype, [&]<class Y>(Type<Y>) {
      const Work work =
          static_cast<double>(op.partial_out.size()) * Work{.bytes = sizeof(T) + sizeof(Y), .operations = 2};
      parallel.ranges(
          op.out.extents[0] * heads, elementwise_grain / (states * dim + 1) + 1, work, [&](index first, index last) {
            for (index row = first; row < last; ++row) {
              const index t = row / heads, h = row % heads;
              float* const share = table + row * states;
              const float lse = merge_shares(op.partial_lse, t, h, share);
              if (op.lse.present()) op.lse.as<float>()[offset(op.lse, t, h)] = lse;
              if (dim == 0) continue;  // and no memory, perhaps
              merge_row<Level>(op.partial_out.as<T>() + offset(op.partial_out, 0, t, h, 0), op.partial_out.strides[0],
                               share, states, dim, op.out.as<Y>() + offset(op.out, t, h, 0));
            }
          });
    });
  });
  return {};
}

template <> struct Kernels<MergeStates<Host>> {
  template <class Level>
  static Status compute(const Parallel& parallel, const MergeStates<Host>& op, Workspace workspace) {
    return merge_states<Level>(parallel, op, workspace);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const MergeStates<Host>& op) {
    return merge_states_scratch(op);
  }
};

}  // namespace inlay::cpu
