// Bytes: top_k rows of x read a token, shared too, one row of y written; one fma an element read. Memory is the limit.
//
// Four registers of y are summed at a time, so that the place of a row of x is worked out once for all of them.
//
// Tried with 8 rows of 7168 bf16 a token, one thread (Zen 5): prefetching 512 elements on takes 5.4 us in place of 6.5
// for one token, but 4.0 ms in place of 2.6 for 512; one choice after another into sums in L1 takes 9.5 us and 3.2 ms.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/moe_combine.hpp>

#include "cpu_kernels/simd/sigmoid.hpp"
#include "cpu_kernels/support/elementwise.hpp"
#include "cpu_kernels/support/kernels.hpp"

namespace inlay::cpu {

// A row of y is cut for threads at multiples of this: some microseconds, as its elements are sums of many.
inline constexpr index combine_piece = 2048;

// What the sums of one token are made of; `shared` may be y itself, or null.
template <class Level, class T, class Y> struct CombineToken {
  using F = simd::Floats<Level>;
  const T* x;
  index x_stride;
  const std::int32_t* rows;
  const float* weights;
  index top_k;
  const T* shared;
  float factor;
  Y* y;

  // Elements i .. of `count` registers; n is All, or the count of a part of a register.
  template <index count, class N> INLAY_INLINE void registers_at(index i, N n) const {
    F sum[count];
    for (index j = 0; j < top_k; ++j) {
      const T* const row = x + rows[j] * x_stride + i;
      const F weight(weights[j]);
      for (index k = 0; k < count; ++k) sum[k] = fma(weight, load<F>(row + k * F::size, n), sum[k]);
    }
    for (index k = 0; k < count; ++k) {
      const index at = i + k * F::size;
      if (shared != nullptr) sum[k] = fma(F(factor), load<F>(shared + at, n), sum[k]);
      store(sum[k], y + at, n);
    }
  }

  INLAY_INLINE void operator()(index begin, index end) const {
    index i = begin;
    for (; i + 4 * F::size <= end; i += 4 * F::size) registers_at<4>(i, All{});
    registers<F>(i, end, [&](index at, auto n) { registers_at<1>(at, n); });
  }
};

template <class Level> INLAY_INLINE float shared_factor(const MoeCombine<Host>& op, index t) {
  using F = simd::Floats<Level>;
  float factor = 1;
  if (op.shared_gate.present())
    with_float(op.shared_gate.dtype, [&]<class G>(Type<G>) {
      store(simd::sigmoid(F::load(row_of<G>(op.shared_gate, t), 1)), &factor, index{1});
    });
  return factor;
}

template <class Level> Status moe_combine(const Parallel& parallel, const MoeCombine<Host>& op) {
  const index tokens = op.y.extents[0], dim = op.y.extents[1], top_k = op.rows.extents[1];
  const index cuts = groups_of(dim, combine_piece);
  with_float(op.x.dtype, [&]<class T>(Type<T>) {
    const auto typed = [&]<class Y>(Type<Y>) {
      const double read = static_cast<double>(top_k + op.shared.present());
      const Work work =
          static_cast<double>(tokens * dim) * Work{.bytes = read * sizeof(T) + 2 * sizeof(Y), .operations = 2 * read};
      const index grain = elementwise_grain / (min(dim, combine_piece) * top_k + 1) + 1;
      parallel.ranges(tokens * cuts, grain, work, [&](index first, index last) {
        for (index piece = first; piece < last; ++piece) {
          const index t = piece / cuts, begin = piece % cuts * combine_piece;
          const CombineToken<Level, T, Y> token{.x = op.x.template as<T>(),
                                                .x_stride = op.x.strides[0],
                                                .rows = row_of<std::int32_t>(op.rows, t),
                                                .weights = row_of<float>(op.weights, t),
                                                .top_k = top_k,
                                                .shared = op.shared.present() ? row_of<T>(op.shared, t) : nullptr,
                                                .factor = shared_factor<Level>(op, t),
                                                .y = row_of<Y>(op.y, t)};
          token(begin, min(begin + combine_piece, dim));
        }
      });
    };
    if (op.y.dtype == DType::f32)
      typed(Type<float>{});
    else
      typed(Type<T>{});
  });
  return {};
}

template <> struct Kernels<MoeCombine<Host>> {
  template <class Level> static Status compute(const Parallel& parallel, const MoeCombine<Host>& op, Workspace) {
    return moe_combine<Level>(parallel, op);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const MoeCombine<Host>&) { return 0; }
};

}  // namespace inlay::cpu
