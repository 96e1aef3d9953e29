// A case of softmax, and its bound.
#pragma once

#include <inlay/ops/softmax.hpp>

#include "cpu_kernels/softmax.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {

// Everything that one case needs, so that backends start from the same bytes.
struct SoftmaxCase {
  Tensor<3> x, mask = {}, y;
  Tensor<1> sink = {};
  float scale = 1;
  bool log = false;
  bool not_finite = false;  // some rows are NaN

  Softmax<Host> op() { return {.x = x, .mask = mask, .sink = sink, .y = y, .scale = scale, .log = log}; }
  SoftmaxCase unrounded() const { return {x, mask, y.widened(), sink, scale, log, not_finite}; }
  void add_sink(Rng& rng) { sink = Tensor<1>(DType::f32, {x.extents()[0]}).uniform(rng, -8, 8); }
};

// x, y and what masks it have rows that lie differently.
inline SoftmaxCase softmax_case(DType type, DType out, const std::array<index, 3>& shape, Layout layout, Rng& rng) {
  SoftmaxCase c{.x = {type, shape, {.row_gap = layout.row_gap + 1, .misaligned = layout.misaligned}},
                .y = {out, shape, layout}};
  c.x.uniform(rng, -8, 8);
  c.y.poison();
  return c;
}

// What masks at the largest of each kind: true or minus infinity for a third of the places.
inline void add_mask(SoftmaxCase& c, DType kind, bool each_head, bool each_row, Rng& rng) {
  const auto& [heads, rows, n] = c.x.extents();
  c.mask = {kind, {each_head ? heads : 1, each_row ? rows : 1, n}, {.row_gap = 2, .misaligned = 1}};
  for (index k = 0; k < c.mask.size(); ++k) {
    const bool hidden = rng() % 3 == 0;
    const double value = static_cast<double>(rng() % 9) - 4;
    c.mask.set(k, kind == DType::boolean ? hidden : hidden ? -std::numeric_limits<double>::infinity() : value);
  }
}

inline double mask_at(const SoftmaxCase& c, index h, index r, index j) {
  if (!c.mask.present()) return 0;
  const double m = at(c.mask.view(), c.mask.extents()[0] == 1 ? 0 : h, c.mask.extents()[1] == 1 ? 0 : r, j);
  return c.mask.dtype() != DType::boolean ? m : m != 0 ? -std::numeric_limits<double>::infinity() : 0;
}

// What lies under a mask is no number.
inline void poison_masked(SoftmaxCase& c) {
  const auto& [heads, rows, n] = c.x.extents();
  for (index h = 0; h < heads; ++h)
    for (index r = 0; r < rows; ++r)
      for (index j = 0; j < n; ++j)
        if (mask_at(c, h, r, j) == -std::numeric_limits<double>::infinity())
          c.x.set((h * rows + r) * n + j, j % 2 ? std::nan("") : std::numeric_limits<double>::infinity());
}

// For each element the bound of |y - exact| in eps of f32: of y itself, or with log of an absolute error.
//
// The exponent s - m has three roundings, of scale * x, of the mask's sum and of the difference, each at most eps of
// its result: together a[j]. So exp(s[j] - m) is off by a[j] relatively and the sum by their mean over the weights, the
// sink's included. exp adds 3 eps here, its mean in the sum less than 2, since errors of different arguments have both
// signs; the merge of pieces, quotient and products 4. The logarithm turns what is relative into absolute, and rounds
// thrice.
//
// The sum is added up in two chains of a piece or more, of which each reaches half of the piece's sum: a weight below
// eps of that may be lost whole, the others are rounded to a multiple of it. Equal weights are rounded alike, different
// ones at random, by 0.6 eps / 2 on average: for the largest n four times that, over pieces that are added to each
// other.
inline Tensor<3> softmax_bounds(const SoftmaxCase& c, const Tensor<3>& exact) {
  const auto& [heads, rows, n] = c.x.extents();
  const auto pieces = static_cast<double>((n + cpu::softmax_piece - 1) / cpu::softmax_piece);
  Tensor<3> bounds(DType::f32, c.x.extents());
  std::vector<double> s(static_cast<std::size_t>(n)), a(s.size());
  for (index h = 0; h < heads; ++h)
    for (index r = 0; r < rows; ++r) {
      const index first = (h * rows + r) * n;
      double m = c.sink.present() ? c.sink.get(h) : -std::numeric_limits<double>::infinity();
      for (index j = 0; j < n; ++j) {
        const double mask = mask_at(c, h, r, j), product = c.scale * c.x.get(first + j);
        s[j] = std::isinf(mask) ? mask : product + mask;
        a[j] = c.scale == 1 ? 0 : std::abs(product);
        if (mask != 0) a[j] += std::abs(s[j]);
        m = std::max(m, s[j]);
      }
      double mean = 0, sum = c.sink.present() ? std::exp(c.sink.get(h) - m) : 0;
      if (c.sink.present()) mean = sum * std::abs(c.sink.get(h) - m);
      for (index j = 0; j < n; ++j) {
        a[j] += std::abs(s[j] - m);
        const double weight = std::exp(s[j] - m);
        sum += weight;
        if (weight > 0) mean += weight * a[j];
      }
      std::sort(s.begin(), s.end());
      double squares = 0, lost = 0;
      for (auto begin = s.begin(), end = begin; begin != s.end(); begin = end) {
        end = std::upper_bound(begin, s.end(), *begin);
        const auto count = static_cast<double>(end - begin);
        const double weight = std::exp(*begin - m) / sum;
        if (weight < epsilon(DType::f32) / 2)
          lost += count * weight;
        else
          squares += count * count;
      }
      const double added = lost / epsilon(DType::f32) + std::sqrt(squares) / pieces;
      for (index j = 0; j < n; ++j) {
        const double relative = a[j] + mean / sum + 9 + added, y = std::abs(exact.get(first + j));
        bounds.set(first + j, !std::isfinite(relative) ? 0 : c.log ? relative + y : relative * y);
      }
    }
  return bounds;
}

inline void compare_softmax(const SoftmaxCase& start) {
  Tensor<3> bounds;
  against_the_reference(start, [&](const SoftmaxCase& expected, const SoftmaxCase& got) {
    if (!bounds.present()) bounds = softmax_bounds(start, expected.y);
    expect_close(got.y, expected.y, 1, [&](index k) { return bounds.get(k); }, {.nan = start.not_finite});
    EXPECT_TRUE(got.y.gaps_untouched());
  });
}

// y over x.
inline void compare_softmax_in_place(const SoftmaxCase& start) {
  SoftmaxCase apart = start.unrounded();
  SCOPED_TRACE(describe(apart.op()));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, apart.op())));
  const Tensor<3> bounds = softmax_bounds(start, apart.y);
  on_every_backend([&](const std::string&, auto run) {
    SoftmaxCase got = start;
    Softmax<Host> op = got.op();
    op.y = got.x;
    ASSERT_TRUE(ok(run(op)));
    expect_close(got.x, apart.y, 1, [&](index k) { return bounds.get(k); });
  });
}

INLAY_RUNS_OF(Softmax, extern);

}  // namespace inlay::test
