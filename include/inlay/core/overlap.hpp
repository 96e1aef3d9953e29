// Do two views touch a common byte? Fused buffers interleave (q, k and v of one row lie side by
// side), so comparing address ranges alone would refuse them.
#pragma once

#include <type_traits>

#include <inlay/core/inline.hpp>
#include <inlay/core/layout.hpp>

namespace inlay {

inline namespace INLAY_UNIT_ISA {

// Of two views of one space. Exact for equal outer periods (fused rows); otherwise true where the ranges of bytes meet.
constexpr bool rows_overlap(const Rows& a, const Rows& b, std::ptrdiff_t apart) {
  if (a.period == 0 || a.period != b.period) return true;
  const std::ptrdiff_t shift = (apart % a.period + a.period) % a.period;
  return !(shift >= a.span && shift + b.span <= a.period);
}

// Views of two spaces never overlap.
template <class A, class B> bool overlap(const A& a, const B& b) {
  if constexpr (std::is_same_v<typename A::space, typename B::space>) {
    using Pointer = SpacePointer<typename A::space>;
    if (a.empty() || b.empty() || !Pointer::same_memory(a.data, b.data)) return false;
    const ByteRange p = byte_range(a), q = byte_range(b);
    return q.begin < p.end && p.begin < q.end && rows_overlap(rows_of(a), rows_of(b), q.begin - p.begin);
  } else {
    return false;
  }
}

// The same memory, element for element.
template <class A, class B> bool same_elements(const A& a, const B& b) {
  if constexpr (!std::is_same_v<typename A::space, typename B::space>) {
    return false;
  } else {
    using Const = typename SpacePointer<typename A::space>::Const;
    return Const(a.data) == Const(b.data) && same_layout(a, b);
  }
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
