// What the tests of attention operators share.
#pragma once

#include <array>
#include <cmath>

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

// A tensor [a, b, c, d] whose memory has b and c exchanged, and its view in the logical order.
struct Permuted {
  Tensor<4> memory;
  bool swapped = false;

  Permuted() = default;
  Permuted(DType type, const std::array<index, 4>& extents, Layout layout = {}, bool swap = false)
      : memory(type, swap ? std::array{extents[0], extents[2], extents[1], extents[3]} : extents, layout),
        swapped(swap) {}
  View<4> view() { return swapped ? swap_heads(memory.view()) : memory.view(); }
  double get(index a, index b, index c, index d) const {
    const View<4> v = const_cast<Permuted*>(this)->view();
    return load_element(v.data, v.dtype, offset(v, a, b, c, d));
  }
  void set(index a, index b, index c, index d, double value) {
    const View<4> v = view();
    store_element(v.data, v.dtype, offset(v, a, b, c, d), value);
  }
};

// Weights are relative errors of exp(s): each score is a sum of dim products, whose rounding errors
// grow like sqrt(dim) * eps * sum|q k| (`magnitude` bounds scale * sum|q k| + |bias|), twice since the
// maximum has one too. The output is a mean of V under these weights, summed over `keys` terms; exp, the
// merges of splits and the division add a few eps. In units of eps(f32) * max|v|.
inline double attention_ulps(index dim, index keys, double magnitude) {
  const double terms = std::sqrt(static_cast<double>(dim)) + 4;
  return 4 * terms * magnitude + 4 * std::sqrt(static_cast<double>(keys)) + 24;
}

inline void expect_close_attention(const Tensor<4>& got, const Tensor<4>& expected, double ulps, double largest_v,
                                   double lost = 0) {
  const auto scale = [&](index) { return largest_v; };
  expect_close(got, expected, ulps, scale, lost);
}

// lse has the absolute error of a score.
inline void expect_close_lse(const Tensor<3>& got, const Tensor<3>& expected, double ulps) {
  expect_close(got, expected, ulps, [&](index k) { return 1 + std::abs(expected.get(k)); });
}

}  // namespace inlay::test
