// What the operators share that compute every element from its peers in other operands: how the work
// is cut, and full registers before the rest.
#pragma once

#include <inlay/core/parallel.hpp>

#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/support/dtypes.hpp"
#include "cpu_kernels/support/min.hpp"

namespace inlay::cpu {

// A task must have this many elements to be worth its claim: some microseconds of memory traffic.
inline constexpr index elementwise_grain = 16384;

// body(row, begin, end) for every row, long rows cut at multiples of the grain; `element` is the work of one.
template <class Body>
INLAY_INLINE void row_pieces(const Parallel& parallel, index rows, index dim, const Work& element, Body&& body) {
  const index cuts = (dim + elementwise_grain - 1) / elementwise_grain;
  const index rows_per_grain = dim > 0 && dim < elementwise_grain ? elementwise_grain / dim : 1;
  parallel.ranges(rows * cuts, rows_per_grain, static_cast<double>(rows * dim) * element, [&](index first, index last) {
    for (index piece = first; piece < last; ++piece) {
      const index begin = piece % cuts * elementwise_grain, end = begin + elementwise_grain;
      body(piece / cuts, begin, min(end, dim));
    }
  });
}

// body(i, n) for registers that begin at i: n is All where the register is full, else their count.
struct All {};
template <class F, class Body> INLAY_INLINE void registers(index begin, index end, Body&& body) {
  index i = begin;
  for (; i + F::size <= end; i += F::size) body(i, All{});
  if (i < end) body(i, end - i);
}

template <class F, class T> INLAY_INLINE F load(const T* p, All) { return F::load(p); }
template <class F, class T> INLAY_INLINE F load(const T* p, index n) { return F::load(p, n); }
template <class F, class T> INLAY_INLINE void store(F v, T* p, All) { v.store(p); }
template <class F, class T> INLAY_INLINE void store(F v, T* p, index n) { v.store(p, n); }
template <class F> INLAY_INLINE void store_i8(F v, std::int8_t* p, All) { v.store_i8(p); }
template <class F> INLAY_INLINE void store_i8(F v, std::int8_t* p, index n) { v.store_i8(p, n); }

// Row t of a view, as T.
template <class T, class V> INLAY_INLINE auto row_of(const V& view, index t) {
  return view.template as<T>() + t * view.strides[0];
}

}  // namespace inlay::cpu
