// The parts of a sequence: how the context is cut, where the workspace keeps each part's (O, max, sum),
// and how they become a row of the result.
#pragma once

#include <inlay/core/online_softmax.hpp>
#include <inlay/core/workspace.hpp>
#include <inlay/ops/paged_attention.hpp>

#include "cpu_kernels/attention/problem.hpp"
#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/support/dtypes.hpp"

namespace inlay::cpu::paged {

INLAY_INLINE index paged_parts(const PagedAttention<Host>& op, index length) {
  return op.partition == 0 ? 1 : (length + op.partition - 1) / op.partition;
}

// What of the visible keys part `part` has.
INLAY_INLINE KeyRange part_keys(const PagedAttention<Host>& op, KeyRange visible, index part) {
  if (op.partition == 0) return visible;
  const index begin = part * op.partition, end = begin + op.partition;
  return {visible.begin > begin ? visible.begin : begin, visible.end < end ? visible.end : end};
}

// Where the workspace keeps what.
struct PagedScratch {
  float* q;      // [seqs, q_heads, padded key_dim]
  float* o;      // [seqs, parts, q_heads, padded value_dim]
  float* state;  // [seqs, parts, q_heads, 2]  max, sum
  index q_heads, parts, q_row, o_row;

  INLAY_INLINE float* q_of(index b, index h) const { return q + (b * q_heads + h) * q_row; }
  INLAY_INLINE float* o_of(index b, index part, index h) const {
    return o + ((b * parts + part) * q_heads + h) * o_row;
  }
  INLAY_INLINE float* state_of(index b, index part, index h) const {
    return state + ((b * parts + part) * q_heads + h) * 2;
  }
};

// Sized by the table, not by this call's lengths: a captured step may see longer ones.
template <class Level> PagedScratch paged_shape(const PagedAttention<Host>& op) {
  const index reach = op.block_tables.extents[1] * block_size_of(op.key_cache);
  const index parts = paged_parts(op, reach);
  return {nullptr,
          nullptr,
          nullptr,
          op.q.extents[1],
          parts > 0 ? parts : 1,
          cpu::padded(op.q.extents[2]),
          cpu::padded(op.out.extents[2])};
}

template <class Level> std::size_t paged_attention_scratch(const PagedAttention<Host>& op) {
  const PagedScratch shape = paged_shape<Level>(op);
  const index rows = op.q.extents[0] * shape.q_heads;
  return WorkspaceCutter::padded<float>(rows * shape.q_row) +
         WorkspaceCutter::padded<float>(rows * shape.parts * shape.o_row) +
         WorkspaceCutter::padded<float>(rows * shape.parts * 2);
}

// The parts of one row, in order; the sink; the division; the rounding.
template <class Level>
void finish_row(const PagedAttention<Host>& op, const PagedScratch& scratch, KeyRange keys, index b, index h) {
  using F = simd::Floats<Level>;
  const index first = op.partition == 0 ? 0 : keys.begin / op.partition;
  const index end = keys.empty() ? first : op.partition == 0 ? 1 : (keys.end - 1) / op.partition + 1;
  const index padded = scratch.o_row;
  float* const o = keys.empty() ? scratch.o_of(b, 0, h) : scratch.o_of(b, first, h);
  SoftmaxState<float> all;
  if (keys.empty())
    for (index d = 0; d < padded; d += F::size) F().store(o + d);
  for (index part = first; part < end; ++part) {
    const float* const state = scratch.state_of(b, part, h);
    const Merged<float> both = merge(all, SoftmaxState<float>{state[0], state[1]});
    if (part > first && state[1] != 0) {
      const float* const next = scratch.o_of(b, part, h);
      for (index d = 0; d < padded; d += F::size)
        fma(F::load(o + d), F(both.scale_a), F::load(next + d) * F(both.scale_b)).store(o + d);
    }
    all = both.state;
  }
  float shrink = 1;
  if (op.sinks.present()) {
    const Merged<float> both = add(all, op.sinks.as<float>()[h * op.sinks.strides[0]]);
    all = both.state;
    shrink = both.scale_a;
  }
  const F inverse(shrink * all.inverse());
  with_float(op.out.dtype, [&]<class T>(Type<T>) {
    T* const to = op.out.as<T>() + b * op.out.strides[0] + h * op.out.strides[1];
    const index dim = op.out.extents[2];
    index d = 0;
    for (; d + F::size <= dim; d += F::size) (F::load(o + d) * inverse).store(to + d);
    if (d < dim) (F::load(o + d) * inverse).store(to + d, dim - d);
  });
  if (op.lse.present()) op.lse.as<float>()[offset(op.lse, b, h)] = all.lse();
}

}  // namespace inlay::cpu::paged
