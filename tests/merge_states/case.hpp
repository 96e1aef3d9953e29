// One case of merge_states, and how far a backend may be from its answer.
#pragma once

#include <inlay/ops/merge_states.hpp>

#include <limits>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr float infinity_f32 = std::numeric_limits<float>::infinity();

// `spare` heads lie before those of the case and behind them, in every tensor.
struct Case {
  index spare;
  Tensor<4> parts;
  Tensor<3> part_lse, out;
  Tensor<2> lse;

  template <class V> V part(V all, int heads) const { return all.slice(heads, spare, all.extents[heads] - 2 * spare); }
  MergeStates<Host> op() {
    return {.partial_out = part(parts.view(), 2),
            .partial_lse = part(part_lse.view(), 2),
            .out = part(out.view(), 1),
            .lse = part(lse.view(), 1)};
  }
  Case unrounded() const { return {spare, parts, part_lse, out.widened(), lse}; }
};

inline constexpr double untouched = 7;

inline Case make(DType type, DType out, const std::array<index, 4>& shape, Layout layout, Rng& rng, index spare = 1) {
  const auto& [states, tokens, shown, dim] = shape;
  const index heads = shown + 2 * spare;
  Case c{.spare = spare,
         .parts = {type, {states, tokens, heads, dim}, layout},
         .part_lse = {DType::f32, {states, tokens, heads}, layout},
         .out = {out, {tokens, heads, dim}, layout},
         .lse = {DType::f32, {tokens, heads}, layout}};
  c.parts.uniform(rng);
  c.part_lse.uniform(rng, -6, 6);
  for (index row = 0; row < tokens * heads; ++row) {
    const bool seen = row % heads >= spare && row % heads < heads - spare;
    c.lse.set(row, seen ? std::nan("") : untouched);
    for (index d = 0; d < dim; ++d) c.out.set(row * dim + d, seen ? std::nan("") : untouched);
    for (index s = 0; s < states; ++s)
      if (!seen) c.part_lse.set(s * tokens * heads + row, std::nan(""));
  }
  return c;
}

// In units of eps(f32), with weights p_s, x_s = m - lse_s, and m the largest lse:
//
//   a share   x rounds once, exp and the quotient's product to three eps more: r_s = x_s + 4 relative to p_s, with a
//             sign of its own for each s; what all have in common, 1 / sum, to 2 + sqrt(states)
//   out       2 sqrt(sum (p_s v_s r_s)^2) + 2 sqrt(sum S_s^2), S_s the first s products, + (2 + sqrt(states)) |out|
//   lse       2 sqrt(sum (p_s r_s)^2) + 2 + sqrt(states) + |lse - m| + |lse|
struct Bound {
  std::vector<double> out, lse;
};

inline Bound bound(const Case& c) {
  const auto& [states, tokens, heads, dim] = c.parts.extents();
  const index rows = tokens * heads;
  Bound b{std::vector<double>(rows * dim), std::vector<double>(rows)};
  for (index row = 0; row < rows; ++row) {
    double m = -infinity, sum = 0, shares = 0;
    for (index s = 0; s < states; ++s) m = std::max(m, c.part_lse.get(s * rows + row));
    if (!std::isfinite(m)) continue;
    std::vector<double> p(states), r(states);
    for (index s = 0; s < states; ++s) {
      const double x = m - c.part_lse.get(s * rows + row);
      p[s] = std::exp(-x), r[s] = p[s] > 0 ? x + 4 : 0;
      sum += p[s];
    }
    const double common = 2 + std::sqrt(static_cast<double>(states));
    for (index s = 0; s < states; ++s) p[s] /= sum, shares += p[s] * p[s] * r[s] * r[s];
    const double lse = m + std::log(sum);
    b.lse[row] = 2 * std::sqrt(shares) + common + std::abs(lse - m) + std::abs(lse);
    for (index d = 0; d < dim; ++d) {
      double out = 0, moved = 0, walk = 0;
      for (index s = 0; s < states; ++s) {
        if (p[s] == 0) continue;
        const double product = p[s] * c.parts.get((s * rows + row) * dim + d);
        out += product;
        moved += product * product * r[s] * r[s];
        walk += out * out;
      }
      b.out[row * dim + d] = 2 * std::sqrt(moved) + 2 * std::sqrt(walk) + common * std::abs(out);
    }
  }
  return b;
}

inline void compare(const Case& start, const Allow& allow = {}) {
  const Bound limit = bound(start);
  against_the_reference(start, [&](const Case& expected, const Case& got) {
    expect_close(
        got.out, expected.out, 1, [&](index k) { return limit.out[k]; }, allow);
    expect_close(
        got.lse, expected.lse, 1, [&](index k) { return limit.lse[k]; }, allow);
    EXPECT_TRUE(got.out.gaps_untouched() && got.lse.gaps_untouched());
  });
}

INLAY_RUNS_OF(MergeStates, extern);

}  // namespace inlay::test
