// Do two views touch a common byte? Fused buffers interleave (q, k and v of one row lie side by
// side), so comparing address ranges alone would refuse them.
#pragma once

#include <inlay/core/view.hpp>

namespace inlay {

namespace detail {

struct Footprint {
  std::intptr_t begin = 0, end = 0;  // bytes, half open
  index period = 0;                  // bytes of the largest stride; 0: none
  index span = 0;                    // bytes that one period covers, from `begin`
};

template <class V> Footprint footprint(const V& view) {
  Footprint print;
  print.begin = reinterpret_cast<std::intptr_t>(view.data);
  index low = 0, high = 0, inner_high = 0, largest = 0;
  for (int d = 0; d < V::rank; ++d) {
    const index step = view.strides[d] * bits(view.dtype);
    const index reach = step * (view.extents[d] - 1);
    (reach < 0 ? low : high) += reach;
    if (view.extents[d] > 1 && (step < 0 ? -step : step) > largest) largest = step < 0 ? -step : step;
  }
  for (int d = 0; d < V::rank; ++d) {
    const index step = view.strides[d] * bits(view.dtype);
    if ((step < 0 ? -step : step) != largest) inner_high += (step < 0 ? -step : step) * (view.extents[d] - 1);
  }
  print.begin += low / 8;
  print.end = print.begin + (high - low + bits(view.dtype) + 7) / 8;
  print.period = largest / 8;
  print.span = (inner_high + bits(view.dtype) + 7) / 8;
  return print;
}

}  // namespace detail

// Exact for equal outer periods (fused rows); otherwise true where the address ranges meet.
template <class A, class B> bool overlap(const A& a, const B& b) {
  if (a.empty() || b.empty()) return false;
  const auto p = detail::footprint(a), q = detail::footprint(b);
  if (p.end <= q.begin || q.end <= p.begin) return false;
  if (p.period == 0 || p.period != q.period) return true;
  const index shift = ((q.begin - p.begin) % p.period + p.period) % p.period;
  return !(shift >= p.span && shift + q.span <= p.period);
}

// The same memory, element for element.
template <class A, class B> bool same_memory(const A& a, const B& b) {
  if constexpr (A::rank != B::rank) {
    return false;
  } else {
    return a.data == b.data && a.dtype == b.dtype && a.extents == b.extents && a.strides == b.strides;
  }
}

}  // namespace inlay
