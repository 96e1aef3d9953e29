// What the tests of attention operators share.
#pragma once

#include <array>
#include <cmath>
#include <limits>

#include <inlay/core/attention.hpp>

#include "tests/support/cases.hpp"
#include "tests/support/tensor.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {

// BSND <-> BNSD: the same memory with positions and heads exchanged.
template <class V> V swap_heads(V view) {
  std::swap(view.extents[1], view.extents[2]);
  std::swap(view.strides[1], view.strides[2]);
  return view;
}

template <int Rank> void fill_kv(Tensor<Rank>& t, Rng& rng) {
  if (t.dtype() == DType::i8)
    t.integers(rng, -128, 127);
  else
    t.uniform(rng);
}

inline Tensor<1> alibi_slopes(index heads) {
  Tensor<1> slopes(DType::f32, {heads});
  for (index h = 0; h < heads; ++h) slopes.set(h, alibi_slope(h, heads));
  return slopes;
}

inline Tensor<1> random_sinks(index heads, Rng& rng) { return Tensor<1>(DType::f32, {heads}).uniform(rng, -2, 2); }

inline constexpr std::array bias_orders{BiasOrder::scale_bias_softcap, BiasOrder::scale_softcap_bias,
                                        BiasOrder::bias_scale_softcap};

// Down to one that has no reciprocal, and up to one whose reciprocal is subnormal.
inline constexpr std::array extreme_softcaps{1e-45f, 1e-40f, 3e-39f, 1e-20f, 1e20f, std::numeric_limits<float>::max()};

// Calls each(a, b, c, d) for every element.
template <class Each> void each_place(const std::array<index, 4>& extents, Each&& each) {
  for (index a = 0; a < extents[0]; ++a)
    for (index b = 0; b < extents[1]; ++b)
      for (index c = 0; c < extents[2]; ++c)
        for (index d = 0; d < extents[3]; ++d) each(a, b, c, d);
}

// A tensor [a, b, c, d] whose memory has b and c exchanged, and its view in the logical order.
struct Permuted {
  Tensor<4> memory;
  bool swapped = false;

  Permuted() = default;
  Permuted(DType type, const std::array<index, 4>& extents, Layout layout = {}, bool swap = false)
      : memory(type, swap ? std::array{extents[0], extents[2], extents[1], extents[3]} : extents, layout),
        swapped(swap) {}
  View<4> view() { return swapped ? swap_heads(memory.view()) : memory.view(); }
  std::array<index, 4> view_extents() const { return const_cast<Permuted*>(this)->view().extents; }
  double get(index a, index b, index c, index d) const {
    const View<4> v = const_cast<Permuted*>(this)->view();
    return load_element(v.data, v.dtype, offset(v, a, b, c, d));
  }
  void set(index a, index b, index c, index d, double value) {
    const View<4> v = view();
    store_element(v.data, v.dtype, offset(v, a, b, c, d), value);
  }
};

// What is known of a row's weights p: their sum, which a sink makes less than 1, sqrt(sum p^2), and the root mean
// square of V under them.
struct RowWeights {
  double sum = 0, walk = 0, root_mean_square = 0;
};

// What the errors of a row follow from, in units of eps(f32). Rounding errors are a random walk: those of a sum of n
// terms grow like sqrt(n) times the size of the partial sums, and a mean under p has sqrt(sum p^2) of the errors of its
// terms.
//
// A score is the sum of dim products, whose partial sums are of the size of |q| |k| / sqrt(dim) where signs mix, and of
// its own size where they do not; a bias, a softcap and the difference to the largest score round once or twice at its
// own size. The scores whose weights count lie between lse of the keys alone and log(keys) below it. exp makes of a
// score's error a relative one of the weight, and adds an ulp or two.
//
// lse has the mean of the scores' errors, and in full what all of them share, the rounding of the scale; the largest
// score, the logarithm and their sum round in turn.
//
// In the output the errors of weights meet the root mean square of V; partial sums of p V go from that size to keys
// times the mean; the error of a sink's weight meets the output.
struct AttentionErrors {
  double dim = 1;
  double keys = 1;         // most of a row
  double product = 0;      // scale * |q| |k|, of the largest rows
  double weights_off = 0;  // of each weight where it meets V, relative: bf16_products

  // A row that sees no key is exact.
  double of_lse(double lse, const RowWeights& p) const {
    return p.sum > 0 ? of_score(lse, p) * p.walk + 4 * std::max(own(lse, p), std::abs(lse)) + 4 : 0;
  }
  double of_out(double lse, const RowWeights& p, double out) const {
    if (!(p.sum > 0)) return 0;
    const double score = of_score(lse, p);
    // Roundings of weights are as random as the weights are: those of equal ones are one.
    const double rounded = weights_off / epsilon(DType::f32);
    return ((score + 3 * rounded) * p.walk + 2 * p.sum) * p.root_mean_square +
           (0.5 * std::sqrt(keys) + score + rounded) * std::abs(out);
  }

 private:
  double own(double lse, const RowWeights& p) const {
    const double of_keys = lse + std::log(p.sum);
    return std::max(std::abs(of_keys), std::abs(of_keys - std::log(keys + 1)));
  }
  double of_score(double lse, const RowWeights& p) const {
    return 2 * product + (0.25 * std::sqrt(dim) + 2) * own(lse, p) + 4;
  }
};

// The largest length of a row, given element by element. What is not finite is nobody's to see.
class LargestRow {
 public:
  void add(index d, double x) {
    square_ = (d == 0 ? 0 : square_) + x * x;
    if (std::isfinite(square_)) largest_ = std::max(largest_, square_);
  }
  double length() const { return std::sqrt(largest_); }

 private:
  double square_ = 0, largest_ = 0;
};

}  // namespace inlay::test
