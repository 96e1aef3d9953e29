// The scratch of one worker, and what happens to a row once its keys are through: partial results are
// merged, the sink enters, and the one division and rounding follow.
#pragma once

#include <inlay/core/online_softmax.hpp>
#include <inlay/core/workspace.hpp>

#include "cpu_kernels/attention/problem.hpp"
#include "cpu_kernels/attention/scores.hpp"
#include "cpu_kernels/attention/unit.hpp"
#include "cpu_kernels/simd/floats.hpp"

namespace inlay::cpu {

inline constexpr index score_overhang = 16;  // qk_rows writes whole tiles of rows

struct TileScratch {
  float* q;                    // [rows][padded dim]       scaled
  float* x4;                   // [rows][4 * padded dim]   q, spread, where it meets four keys at once
  float* shift;                // [rows]                   added to scores (attention/int8.hpp)
  float* s;                    // [rows][key_tile]         scores, then probabilities
  float* o;                    // [rows][padded v_dim]     of the split in hand
  float* total;                // [rows][padded v_dim]     of the splits before
  float* factor;               // [rows]
  float* sums;                 // [rows][lanes]            of weights, which end in state
  SoftmaxState<float>* state;  // [rows]
  SoftmaxState<float>* total_state;
  float* kv;       // [key_tile][the wider of the two]   K as rows, then V
  float* columns;  // [padded dim][key_tile]             K transposed, where chunk_invariant

  template <class Take> INLAY_INLINE void cut(const AttentionCall& p, index rows, Take&& take) {
    const index dim = padded(p.k.dim), v_dim = padded(p.v.dim);
    take(q, rows * dim);
    take(x4, p.x4 ? 4 * rows * dim : 0);
    take(shift, rows);
    take(s, rows * key_tile + score_overhang);
    take(o, rows * v_dim);
    take(total, rows * v_dim);
    take(factor, rows);
    take(sums, rows * lane_pad);
    take(state, rows);
    take(total_state, rows);
    take(kv, key_tile * (dim > v_dim ? dim : v_dim));
    take(columns, p.chunk_invariant ? key_tile * dim : 0);
  }
  TileScratch() = default;
  INLAY_INLINE TileScratch(const AttentionCall& p, index rows, std::byte* memory) {
    WorkspaceCutter cutter({memory, 0});
    cut(p, rows, [&]<class T>(T*& array, index count) { array = cutter.take<T>(count); });
  }
};

INLAY_INLINE std::size_t tile_scratch_bytes(const AttentionCall& p, index rows) {
  std::size_t bytes = 0;
  TileScratch().cut(p, rows, [&]<class T>(T*&, index count) { bytes += WorkspaceCutter::padded<T>(count); });
  return bytes;
}

// The results of all splits, kept until they are merged.
struct Partials {
  index rows, pad;             // all rows of the call: token after token, of each sequence one kv head after the other
  float* o;                    // [splits][rows][pad]
  SoftmaxState<float>* state;  // [splits][rows]

  INLAY_INLINE Partials(const AttentionCall& p, index splits, WorkspaceCutter& cutter)
      : rows(rows_of(p)), pad(padded(p.v.dim)) {
    o = cutter.take<float>(splits * rows * pad);
    state = cutter.take<SoftmaxState<float>>(splits * rows);
  }
  INLAY_INLINE static index rows_of(const AttentionCall& p) { return p.q.extents[0] * p.q.extents[1] * p.q_heads(); }
  INLAY_INLINE static std::size_t bytes(const AttentionCall& p, index splits) {
    const index rows = splits * rows_of(p);
    return WorkspaceCutter::padded<float>(rows * padded(p.v.dim)) + WorkspaceCutter::padded<SoftmaxState<float>>(rows);
  }
  // A unit's rows lie side by side: it takes several kv heads only where it takes all of their rows.
  INLAY_INLINE index row(const AttentionCall& p, const HostSequence& sequence, const AttentionUnit& unit,
                         index split) const {
    const index token = sequence.q_outer * p.q.extents[1] + sequence.q_row;
    return split * rows + token * p.q_heads() + unit.kv_head * sequence.queries * p.group() + unit.first;
  }
};

template <class Level> void clear_total(const AttentionCall& p, const TileScratch& t, index rows) {
  using F = simd::Floats<Level>;
  for (index i = 0; i < rows * padded(p.v.dim); i += F::size) F().store(t.total + i);
  for (index r = 0; r < rows; ++r) t.total_state[r] = {};
}

// total = merge(total, (o, state)); a row that saw nothing in the split keeps its bits.
template <class Level>
void merge_split(const AttentionCall& p, const float* o, const SoftmaxState<float>* state, index rows,
                 const TileScratch& t) {
  using F = simd::Floats<Level>;
  const index pad = padded(p.v.dim);
  for (index r = 0; r < rows; ++r) {
    const Merged<float> both = merge(t.total_state[r], state[r]);
    t.total_state[r] = both.state;
    float* total = t.total + r * pad;
    for (index d = 0; d < pad; d += F::size)
      fma(F::load(o + r * pad + d), F(both.scale_b), F::load(total + d) * F(both.scale_a)).store(total + d);
  }
}

// -0 becomes 0: which one a sum that vanishes is depends on how many keys without a weight followed.
template <class Level> void write_row(const AttentionCall& p, const float* o, float factor, index at, index head) {
  using F = simd::Floats<Level>;
  const auto each = [&](auto&& emit) {
    for (index d = 0; d < p.v.dim; d += F::size)
      emit(d, min(p.v.dim - d, F::size), fma(F::load(o + d), F(factor), F()));
  };
  if (p.out.dtype != DType::i8) {
    with_float(p.out.dtype, [&]<class T>(Type<T>) {
      T* y = p.out.template as<T>() + at;
      each([&](index d, index n, F v) { v.store(y + d, n); });
    });
    return;
  }
  const auto parameter = [&](const ConstView<2>& view, index d, index n) {
    const float* row = view.as<float>() + (view.extents[0] == 1 ? 0 : head * view.strides[0]);
    return view.extents[1] == 1 ? F(*row) : F::load(row + d, n);
  };
  each([&](index d, index n, F v) {
    const F offset = p.out_offset.present() ? parameter(p.out_offset, d, n) : F();
    const F y = fma(v, parameter(p.out_scale, d, n), offset);
    const auto is_number = F(-1) < abs(y);
    select(is_number, y, offset).store_i8(p.out.as<std::int8_t>() + at + d, n);
  });
}

template <class Level>
void write_output(const AttentionCall& p, const HostSequence& sequence, const AttentionUnit& unit,
                  const TileScratch& t) {
  for (index r = 0; r < unit.all(); ++r) {
    const AttentionRow row = unit.row(p, sequence, r);
    const index query = sequence.q_row + row.query;
    Merged<float> last{t.total_state[r], 1, 0};
    if (p.sinks.present()) last = add(t.total_state[r], p.sinks.as<float>()[row.head]);
    write_row<Level>(p, t.total + r * padded(p.v.dim), p.v.factor * last.scale_a * last.state.inverse(),
                     offset(p.out, sequence.q_outer, query, row.head, 0), row.head);
    if (p.lse.present()) p.lse.as<float>()[offset(p.lse, sequence.q_outer, query, row.head)] = last.state.lse();
  }
}

}  // namespace inlay::cpu
