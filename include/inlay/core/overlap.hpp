// Do two views touch a common byte? Fused buffers interleave (q, k and v of one row lie side by
// side), so comparing address ranges alone would refuse them.
#pragma once

#include <type_traits>

#include <inlay/core/view.hpp>

namespace inlay {

// The bytes of a view that has elements, as offsets in its allocation.
struct Footprint {
  std::ptrdiff_t begin = 0, end = 0;  // half open
  std::ptrdiff_t period = 0;          // bytes of the largest stride; 0: none, or no whole bytes
  std::ptrdiff_t span = 0;            // bytes that one period covers, from `begin`
};

// Of a view that Check has let pass: its offsets fit.
template <class V> Footprint footprint(const V& view) {
  const auto magnitude = [](index step) { return step < 0 ? -step : step; };
  index low = 0, high = 0, inner_high = 0, largest = 0;
  for (int d = 0; d < V::rank; ++d) {
    const index step = view.strides[d] * bits(view.dtype);
    const index reach = step * (view.extents[d] - 1);
    (reach < 0 ? low : high) += reach;
    if (view.extents[d] > 1 && magnitude(step) > largest) largest = magnitude(step);
  }
  for (int d = 0; d < V::rank; ++d) {
    const index step = magnitude(view.strides[d] * bits(view.dtype));
    if (step != largest) inner_high += step * (view.extents[d] - 1);
  }
  Footprint print;
  print.begin = SpacePointer<typename V::space>::byte_offset(view.data) + low / 8;
  print.end = print.begin + (high - low + bits(view.dtype) + 7) / 8;
  print.period = largest % 8 == 0 ? largest / 8 : 0;
  print.span = (inner_high + bits(view.dtype) + 7) / 8;
  return print;
}

// Exact for equal outer periods (fused rows); otherwise true where the ranges of bytes meet. Views of two
// spaces never overlap.
template <class A, class B> bool overlap(const A& a, const B& b) {
  if constexpr (std::is_same_v<typename A::space, typename B::space>) {
    if (a.empty() || b.empty() || !SpacePointer<typename A::space>::same_memory(a.data, b.data)) return false;
    const Footprint p = footprint(a), q = footprint(b);
    if (p.end <= q.begin || q.end <= p.begin) return false;
    if (p.period == 0 || p.period != q.period) return true;
    const index shift = ((q.begin - p.begin) % p.period + p.period) % p.period;
    return !(shift >= p.span && shift + q.span <= p.period);
  } else {
    return false;
  }
}

// The same memory, element for element.
template <class A, class B> bool same_elements(const A& a, const B& b) {
  if constexpr (A::rank != B::rank || !std::is_same_v<typename A::space, typename B::space>) {
    return false;
  } else {
    using Const = typename SpacePointer<typename A::space>::Const;
    return Const(a.data) == Const(b.data) && a.dtype == b.dtype && a.extents == b.extents && a.strides == b.strides;
  }
}

}  // namespace inlay
