// Softmax over parts: what is known of the scores seen so far, and how two parts become one.
//                                             Milakov & Gimelshein, 2018; Dao et al., 2022; Ye et al., 2025
//
//   m = max s_j      l = sum exp(s_j - m)      o = sum exp(s_j - m) v_j      (not yet divided)
//   y = o / l        lse = m + log l
//
// merge is associative and commutative up to rounding; the part that saw nothing is its neutral
// element: merge(a, empty) = a, and merge(empty, empty) = (o 0, lse -inf). A NaN score makes l NaN and
// so the whole row; a score of +inf does the same, as exp(inf - inf) does in the textbook.
#pragma once

#include <limits>
#include <numbers>
#include <type_traits>

namespace inlay {

// Kernels include this file at several ISA levels: nothing in it may be emitted out of line.
namespace detail {
template <class Real> [[gnu::always_inline]] inline Real exp_of(Real x) {
  if constexpr (std::is_same_v<Real, float>)
    return __builtin_expf(x);
  else
    return __builtin_exp(x);
}
template <class Real> [[gnu::always_inline]] inline Real log_of(Real x) {
  if constexpr (std::is_same_v<Real, float>)
    return __builtin_logf(x);
  else
    return __builtin_log(x);
}
}  // namespace detail

template <class Real> struct SoftmaxState {
  static constexpr Real minus_infinity = -std::numeric_limits<Real>::infinity();

  Real max = minus_infinity;
  Real sum = 0;

  // exp(x - m) even where m is still -inf: nothing minus nothing weighs nothing.
  [[gnu::always_inline]] Real weight(Real x) const {
    return x == minus_infinity ? Real{0} : detail::exp_of(x - (max == minus_infinity ? Real{0} : max));
  }
  // What o must be multiplied with to become y; 0 where no key was seen.
  [[gnu::always_inline]] Real inverse() const { return sum == 0 ? Real{0} : 1 / sum; }
  [[gnu::always_inline]] Real lse() const { return sum == 0 ? minus_infinity : max + detail::log_of(sum); }
};

// The result of a merge, and the factors for the two undivided outputs: o = a.o * scale_a + b.o * scale_b.
template <class Real> struct Merged {
  SoftmaxState<Real> state;
  Real scale_a, scale_b;
};

template <class Real> [[gnu::always_inline]] inline Merged<Real> merge(SoftmaxState<Real> a, SoftmaxState<Real> b) {
  SoftmaxState<Real> both{a.max > b.max ? a.max : b.max, 0};
  const Real scale_a = both.weight(a.max), scale_b = both.weight(b.max);
  // An empty part is left out rather than multiplied by zero: a + 0 * NaN would not be a.
  both.sum = (a.sum == 0 ? Real{0} : a.sum * scale_a) + (b.sum == 0 ? Real{0} : b.sum * scale_b);
  return {both, scale_a, scale_b};
}

// One more score: the caller scales o by scale_a and adds scale_b * v.
template <class Real> [[gnu::always_inline]] inline Merged<Real> add(SoftmaxState<Real> a, Real score) {
  return merge(a, SoftmaxState<Real>{score, score == SoftmaxState<Real>::minus_infinity ? Real{0} : Real{1}});
}

// The same for outputs that are divided already, known by their lse: y = a.y * scale_a + b.y * scale_b. An lse of NaN
// or +inf is no weight: it makes lse, and y, NaN.
template <class Real> struct MergedLse { Real lse, scale_a, scale_b; };

template <class Real> [[gnu::always_inline]] inline MergedLse<Real> merge_lse(Real a, Real b) {
  const Merged<Real> both = merge(SoftmaxState<Real>{a, a == SoftmaxState<Real>::minus_infinity ? Real{0} : Real{1}},
                                  SoftmaxState<Real>{b, b == SoftmaxState<Real>::minus_infinity ? Real{0} : Real{1}});
  const Real inverse = both.state.inverse();
  return {both.state.lse(), both.scale_a * inverse, both.scale_b * inverse};
}

// FlashInfer's lse is log2 sum exp(s_j). Infinities and NaN stay what they are.
template <class Real> [[gnu::always_inline]] constexpr Real lse_from_base2(Real lse) {
  return lse * std::numbers::ln2_v<Real>;
}
template <class Real> [[gnu::always_inline]] constexpr Real lse_to_base2(Real lse) {
  return lse * std::numbers::log2e_v<Real>;
}

}  // namespace inlay
