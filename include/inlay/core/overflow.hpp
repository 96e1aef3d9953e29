// Arithmetic on sizes that came from outside, none of which wraps. Check asks every view once whether it fits into
// memory (core/view.hpp): behind that its own products and offsets do, and only what joins several views, or views
// and scalars, needs these.
//
//   checked_multiply(a, b, product)   false where the product does not fit; then `product` is of no use
//   saturating_multiply(a, b)         of numbers of zero and more: the largest index where the product does not fit
//   groups_of(count, group)           how many groups of `group` cover `count`; count + group is never formed
#pragma once

#include <limits>

#include <inlay/core/dtype.hpp>

namespace inlay {

inline constexpr index largest_index = std::numeric_limits<index>::max();

[[gnu::always_inline]] constexpr bool checked_multiply(index a, index b, index& product) {
  return !__builtin_mul_overflow(a, b, &product);
}
[[gnu::always_inline]] constexpr index saturating_multiply(index a, index b) {
  index product = 0;
  return checked_multiply(a, b, product) ? product : largest_index;
}
[[gnu::always_inline]] constexpr index groups_of(index count, index group) {
  return count / group + (count % group > 0);
}

}  // namespace inlay
