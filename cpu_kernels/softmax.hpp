// A row is cut into pieces of fixed length: each gives its maximum m and its sum of exp(s - m), and
// the pieces' pairs merge as in online softmax. A piece stays in L1/L2 over its passes, so memory
// sees x read once, and once more y in both directions where a row has several pieces.
//
//   piece 0      piece 1      ..   last        f32 output: exp(s - m_piece) is stored in the first
//   (m0, l0)     (m1, l1)          (mp, lp)    sweep and multiplied by exp(m_piece - m) / l in the
//                                              second; f16 and bf16 compute exp twice instead
//
// Pieces do not depend on the number of threads, so neither do the results.
#pragma once

#include <inlay/core/workspace.hpp>
#include <inlay/cpu.hpp>
#include <inlay/ops/softmax.hpp>

#include <cmath>
#include <limits>

#include "cpu_kernels/support/elementwise.hpp"
#include "cpu_kernels/support/kernels.hpp"
#include "cpu_kernels/support/min.hpp"

namespace inlay::cpu {

inline constexpr index softmax_piece = 16384;
inline constexpr float softmax_lowest = -std::numeric_limits<float>::max();

struct SoftmaxPiece {
  float max, sum;
};

// Where the scores of one row come from.
template <class T> struct SoftmaxRow {
  const T* x;
  const std::uint8_t* hidden = nullptr;  // at most one of these three
  const float* mask_f32 = nullptr;
  const T* mask = nullptr;
  float scale;
};

template <class F, class T, class Count> INLAY_INLINE F scores(const SoftmaxRow<T>& row, index i, Count n) {
  const F minus_infinity(-std::numeric_limits<float>::infinity());
  F s = load<F>(row.x + i, n) * F(row.scale);
  if (row.hidden) return select(F() < load<F>(row.hidden + i, n), minus_infinity, s);
  if (!row.mask && !row.mask_f32) return s;
  const F mask = row.mask_f32 ? load<F>(row.mask_f32 + i, n) : load<F>(row.mask + i, n);
  return select(mask < F(softmax_lowest), minus_infinity, s + mask);
}

// The shift of a piece: a piece that is masked whole must not compute inf - inf.
INLAY_INLINE float softmax_shift(float max) { return max < softmax_lowest ? 0 : max; }

// First sweep: (m, l), and exp(s - m) into y where y holds f32 and no logarithm is asked for.
template <class Level, class T>
SoftmaxPiece softmax_reduce(const SoftmaxRow<T>& row, index begin, index end, float* y) {
  using F = simd::Floats<Level>;
  F most[2] = {F(-std::numeric_limits<float>::infinity()), F(-std::numeric_limits<float>::infinity())};
  index i = begin;
  for (; i + 2 * F::size <= end; i += 2 * F::size) {
    most[0] = max(scores<F>(row, i, All{}), most[0]);  // a NaN gives way here and is met again in the sum
    most[1] = max(scores<F>(row, i + F::size, All{}), most[1]);
  }
  registers<F>(i, end, [&](index k, auto n) {
    const F s = scores<F>(row, k, n);
    if constexpr (std::is_same_v<decltype(n), All>)
      most[0] = max(s, most[0]);
    else
      most[0] = max(select(F::first(n), s, most[0]), most[0]);
  });
  const float m = reduce_max(max(most[0], most[1]));
  const F shift(softmax_shift(m));
  F sum[2];
  const auto add = [&](F& total, index k, auto n) {
    const F e = exp_below(scores<F>(row, k, n) - shift);
    if (y != nullptr) store(e, y + k, n);
    if constexpr (std::is_same_v<decltype(n), All>)
      total = total + e;
    else
      total = total + select(F::first(n), e, F());
  };
  for (i = begin; i + 2 * F::size <= end; i += 2 * F::size) {
    add(sum[0], i, All{});
    add(sum[1], i + F::size, All{});
  }
  registers<F>(i, end, [&](index k, auto n) { add(sum[0], k, n); });
  return {m, reduce_sum(sum[0] + sum[1])};
}

// The pieces of a row and its sink, merged in order: the whole row's pair.
template <class Level> SoftmaxPiece softmax_merge(const SoftmaxPiece* pieces, index count, float sink) {
  float m = sink;
  for (index p = 0; p < count; ++p) m = pieces[p].max > m ? pieces[p].max : m;
  const float shift = softmax_shift(m);
  float sum = __builtin_expf(sink - shift);
  for (index p = 0; p < count; ++p) sum += pieces[p].sum * __builtin_expf(pieces[p].max - shift);
  return {m, sum};
}

// Second sweep over one piece.
template <class Level, class T, class Y>
void softmax_emit(const SoftmaxRow<T>& row, SoftmaxPiece own, SoftmaxPiece whole, bool log, index begin, index end,
                  Y* y) {
  using F = simd::Floats<Level>;
  const F shift(softmax_shift(whole.max));
  if (log) {
    const F lse(whole.sum == 0 ? 0 : __builtin_logf(whole.sum));
    return registers<F>(begin, end, [&](index i, auto n) { store(scores<F>(row, i, n) - shift - lse, y + i, n); });
  }
  const float inverse = whole.sum == 0 ? 0 : 1 / whole.sum;
  if constexpr (std::is_same_v<Y, float>) {
    const F factor(inverse * __builtin_expf(own.max - softmax_shift(whole.max)));
    registers<F>(begin, end, [&](index i, auto n) { store(load<F>(y + i, n) * factor, y + i, n); });
  } else {
    registers<F>(begin, end,
                 [&](index i, auto n) { store(exp_below(scores<F>(row, i, n) - shift) * F(inverse), y + i, n); });
  }
}

// Rows of one piece need no scratch.
INLAY_INLINE std::size_t softmax_scratch(const Softmax<Host>& op) {
  const index pieces = (op.x.extents[2] + softmax_piece - 1) / softmax_piece;
  return pieces <= 1 ? 0 : WorkspaceCutter::padded<SoftmaxPiece>(op.x.extents[0] * op.x.extents[1] * pieces);
}

template <class Level, class T, class Y>
void softmax_typed(const Parallel& parallel, const Softmax<Host>& op, Workspace workspace) {
  const index rows = op.x.extents[0] * op.x.extents[1], n = op.x.extents[2];
  const index pieces = (n + softmax_piece - 1) / softmax_piece;
  const auto source = [&](index h, index r) {
    SoftmaxRow<T> row{.x = op.x.template as<T>() + offset(op.x, h, r, 0), .scale = op.scale};
    if (op.mask.present()) {
      const index at = offset(op.mask, op.mask.extents[0] == 1 ? 0 : h, op.mask.extents[1] == 1 ? 0 : r, 0);
      if (op.mask.dtype == DType::boolean)
        row.hidden = op.mask.template as<std::uint8_t>() + at;
      else if (op.mask.dtype == DType::f32)
        row.mask_f32 = op.mask.template as<float>() + at;
      else
        row.mask = op.mask.template as<T>() + at;
    }
    return row;
  };
  const auto target = [&](index h, index r) { return op.y.template as<Y>() + offset(op.y, h, r, 0); };
  const auto sink = [&](index h) {
    return op.sink.present() ? *row_of<float>(op.sink, h) : -std::numeric_limits<float>::infinity();
  };
  const auto reduce = [&](index h, index r, index begin, index end) {
    float* stored = nullptr;
    if constexpr (std::is_same_v<Y, float>)
      if (!op.log) stored = target(h, r);
    return softmax_reduce<Level>(source(h, r), begin, end, stored);
  };

  const Work work = static_cast<double>(rows * n) * Work{.bytes = sizeof(T) + sizeof(Y), .operations = 30};
  if (pieces <= 1)
    return parallel.ranges(rows, elementwise_grain / (n + 1) + 1, work, [&](index first, index last) {
      for (index row = first; row < last; ++row) {
        const index h = row / op.x.extents[1], r = row % op.x.extents[1];
        const SoftmaxPiece own = reduce(h, r, 0, n);
        const SoftmaxPiece whole = softmax_merge<Level>(&own, 1, sink(h));
        softmax_emit<Level>(source(h, r), own, whole, op.log, 0, n, target(h, r));
      }
    });
  SoftmaxPiece* const table = WorkspaceCutter(workspace).take<SoftmaxPiece>(rows * pieces);
  const auto each_piece = [&](auto&& body) {
    parallel(rows * pieces, work, [&](index task) {
      const index row = task / pieces, begin = task % pieces * softmax_piece;
      const index end = min(begin + softmax_piece, n);
      body(row, row / op.x.extents[1], row % op.x.extents[1], task, begin, end);
    });
  };
  each_piece(
      [&](index, index h, index r, index task, index begin, index end) { table[task] = reduce(h, r, begin, end); });
  each_piece([&](index row, index h, index r, index task, index begin, index end) {
    const SoftmaxPiece whole = softmax_merge<Level>(table + row * pieces, pieces, sink(h));
    softmax_emit<Level>(source(h, r), table[task], whole, op.log, begin, end, target(h, r));
  });
}

template <class Level> Status softmax(const Parallel& parallel, const Softmax<Host>& op, Workspace workspace) {
  with_float(op.x.dtype, [&]<class T>(Type<T>) {
    if (op.y.dtype == DType::f32)
      softmax_typed<Level, T, float>(parallel, op, workspace);
    else
      softmax_typed<Level, T, T>(parallel, op, workspace);
  });
  return {};
}

template <> struct Kernels<Softmax<Host>> {
  template <class Level> static Status compute(const Parallel& parallel, const Softmax<Host>& op, Workspace workspace) {
    return softmax<Level>(parallel, op, workspace);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const Softmax<Host>& op) {
    return softmax_scratch(op);
  }
};

}  // namespace inlay::cpu
