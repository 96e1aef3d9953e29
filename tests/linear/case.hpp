// One case of linear: everything that it needs, so that backends start from the same bytes.
#pragma once

#include <inlay/weights/linear_pack.hpp>

#include <limits>
#include <optional>

#include "cpu_kernels/linear/cuts.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/matrix.hpp"
#include "tests/support/subnormals.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {

enum class Form { packed, rows };

struct Case {
  Tensor<2> x, rows, y;
  Tensor<3> packed;
  Tensor<1> bias = {};
  Form form = Form::packed;
  LinearCompute compute = LinearCompute::exact_float;

  Linear<Host> op() {
    Linear<Host> op{.x = x, .bias = bias, .y = y, .compute = compute};
    if (form == Form::packed)
      op.weight = packed;
    else
      op.weight_rows = rows;
    return op;
  }
  Case unrounded() const {
    Case wide = *this;
    wide.y = y.widened();
    return wide;
  }
  Case& add_bias(DType type, Rng& rng) {
    bias = Tensor<1>(type, {rows.extents()[0]}, {.row_gap = 0, .misaligned = 1}).uniform(rng);
    return *this;
  }
  Case& pack() {
    packed = Tensor<3>(rows.dtype(), linear_packed_extents(rows.extents()[0], rows.extents()[1], rows.dtype()));
    packed.fill(std::numeric_limits<double>::quiet_NaN());
    EXPECT_TRUE(ok(pack_linear(serial(), rows, packed)));
    return *this;
  }
};

struct Types {
  DType x, weight, y;
  LinearCompute compute = LinearCompute::exact_float;
};

// All that the contract allows.
inline std::vector<Types> all_types() {
  std::vector<Types> list;
  for (DType x : float_types)
    for (DType weight : float_types)
      for (DType y : float_types)
        if (y == DType::f32 || y == x) list.push_back({x, weight, y});
  return list;
}

// One for each way to multiply: f32; f16 and bf16 widened; pairs of bf16 in one instruction, as they are and rounded.
inline const std::vector<Types> kinds = {{DType::f32, DType::f32, DType::f32},
                                         {DType::f32, DType::f16, DType::f32},
                                         {DType::f16, DType::bf16, DType::f16},
                                         {DType::bf16, DType::bf16, DType::bf16},
                                         {DType::f32, DType::f32, DType::f32, LinearCompute::bf16_products},
                                         {DType::f16, DType::f16, DType::f16, LinearCompute::bf16_products},
                                         {DType::f32, DType::bf16, DType::f32, LinearCompute::bf16_products}};

// May the instruction multiply it that flushes whatever the mode (docs/ops/linear.md)?
inline bool may_flush(const Types& type) {
  return type.compute == LinearCompute::bf16_products || (type.x == DType::bf16 && type.weight == DType::bf16);
}

inline Case make(Types type, index tokens, index n, index k, Layout layout, Rng& rng) {
  Case c{.x = {type.x, {tokens, k}, layout},
         .rows = {type.weight, {n, k}, layout},
         .y = {type.y, {tokens, n}, layout},
         .packed = {},
         .compute = type.compute};
  c.x.uniform(rng);
  c.rows.uniform(rng);
  c.y.poison();
  c.pack();
  return c;
}

// Bounds of sums follow a walk: each rounding is a step of at most eps(f32) times the number that is rounded, of either
// sign, so that all together stay below a few times the root of the sum of their squares. Steps are evenly spread
// over +-eps or less, their deviation is 0.58 eps at most, and 4 eps are seven of these deviations.
inline constexpr double walk_ulps = 4;

// x or the weight as it is multiplied.
inline Matrix factors(const Case& c, const Tensor<2>& of) {
  Matrix values = matrix(of);
  if (c.compute == LinearCompute::bf16_products)
    for (double& each : values.reshaped()) each = round_to(DType::bf16, each);
  return values;
}

// The root of the squares of all that is rounded on the way to each y: in a block of k a chain of sums, and at the
// scalar level its products; then the sums of the blocks, and the bias.
inline Matrix walks(const Case& c) {
  const Matrix x = factors(c, c.x), w = factors(c, c.rows);
  Matrix walk(x.rows(), w.rows());
  for (index t = 0; t < x.rows(); ++t)
    for (index n = 0; n < w.rows(); ++n) {
      double squares = 0, total = 0, chain = 0;
      for (index k = 0; k < x.cols(); ++k) {
        const double product = x(t, k) * w(n, k);
        chain += product;
        squares += product * product + chain * chain;
        if ((k + 1) % cpu::linear_k_block == 0 || k + 1 == x.cols()) {
          total += chain;
          chain = 0;
          if (k >= cpu::linear_k_block) squares += total * total;
        }
      }
      if (c.bias.present()) squares += (total + c.bias.get(n)) * (total + c.bias.get(n));
      walk(t, n) = std::sqrt(squares);
    }
  return walk;
}

// body(form, backends): both forms of the weight, of which one goes to devices too.
template <class Body> void each_form(const Case& start, Body&& body) {
  const bool odd = (start.y.size() + start.x.size()) % 2;
  for (Form form : {Form::packed, Form::rows}) {
    SCOPED_TRACE(form == Form::packed ? "packed" : "rows");
    const auto test = [&](const std::string&, auto run) {
      Case got = start;
      got.form = form;
      ASSERT_TRUE(ok(run(got.op())));
      EXPECT_TRUE(got.y.gaps_untouched());
      body(got);
    };
    if (odd == (form == Form::packed))
      on_every_backend(test);
    else
      on_every_host_backend(test);
  }
}

inline void compare(const Case& start) {
  Case expected = start.unrounded();
  SCOPED_TRACE(describe(expected.op()));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  const Matrix walk = walks(start);
  each_form(start, [&](const Case& got) {
    expect_close(got.y, expected.y, walk_ulps, [&](index i) { return walk.data()[i]; });
  });
}

// Small integers, whose sums are exact in any order: every bit is known, the rounding to y's type included.
inline Case& small_integers(Case& c, Rng& rng) {
  c.x.integers(rng, -8, 8);
  c.rows.integers(rng, -8, 8);
  if (c.bias.present()) c.bias.integers(rng, -100, 100);
  return c.pack();
}
inline void compare_exactly(const Case& start) {
  Case expected = start;
  SCOPED_TRACE(describe(expected.op()));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  each_form(start, [&](const Case& got) { expect_equal(got.y, expected.y); });
}

// expected(label): number for number what every backend gives whose sums are chains of fma in the page's order. The
// CPU's scalar level, which "test device" computes with too, rounds products and sums apart; a matrix unit has its own
// order.
template <class Expected> void expect_chains(const Case& start, Expected&& expected) {
  on_every_backend([&](const std::string& label, auto run) {
    if (label.starts_with("cpu scalar") || label.starts_with("npu ") || label == "test device") return;
    for (Form form : {Form::packed, Form::rows}) {
      Case got = start;
      got.form = form;
      ASSERT_TRUE(ok(run(got.op())));
      expect_equal(got.y, expected(label));
    }
  });
}

INLAY_RUNS_OF(Linear, extern);

}  // namespace inlay::test
