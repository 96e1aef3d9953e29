// Do two views touch a common byte? Fused buffers interleave (q, k and v of one row lie side by
// side), so comparing address ranges alone would refuse them.
#pragma once

#include <cstddef>

#include <inlay/core/inline.hpp>
#include <inlay/core/layout.hpp>

namespace inlay {

inline namespace INLAY_UNIT_ISA {

// Of two views of one allocation. Exact for equal outer periods (fused rows); otherwise true where the ranges of bytes
// meet.
constexpr bool rows_overlap(const Rows& a, const Rows& b, std::ptrdiff_t apart) {
  if (a.period == 0 || a.period != b.period) return true;
  const std::ptrdiff_t shift = (apart % a.period + a.period) % a.period;
  return !(shift >= a.span && shift + b.span <= a.period);
}

// Where a view lies, whatever its type.
struct Place {
  const void* space;       // what views of one space have in common
  const void* allocation;  // in it, and where the first element lies in that
  std::ptrdiff_t first;
};
template <class Space> INLAY_HIDDEN inline constexpr char space_mark = 0;
template <class V> INLAY_INLINE Place place_of(const V& view) {
  using Pointer = SpacePointer<typename V::space>;
  return {&space_mark<typename V::space>, Pointer::allocation(view.data), Pointer::byte_offset(view.data)};
}
// Views of two spaces never overlap.
constexpr bool one_allocation(const Place& a, const Place& b) {
  return a.space == b.space && a.allocation == b.allocation;
}

// Of views whose elements lie in these bytes of one allocation.
constexpr bool overlap(const Layout& a, const ByteRange& p, const Layout& b, const ByteRange& q) {
  return q.begin < p.end && p.begin < q.end && rows_overlap(rows_of(a), rows_of(b), q.begin - p.begin);
}

template <class A, class B> bool overlap(const A& a, const B& b) {
  const Place at = place_of(a), other = place_of(b);
  return !a.empty() && !b.empty() && one_allocation(at, other) &&
         overlap(a, byte_range(a, at.first), b, byte_range(b, other.first));
}

// The same memory, element for element.
template <class A, class B> bool same_elements(const A& a, const B& b) {
  const Place at = place_of(a), other = place_of(b);
  return one_allocation(at, other) && at.first == other.first && same_layout(a, b);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
