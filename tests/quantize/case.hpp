// Everything that one case needs, so that backends start from the same bytes.
#pragma once

#include <inlay/ops/quantize.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/quantized.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {

struct QuantizeCase {
  Tensor<2> x, scale = {}, zero = {}, y;
  Tensor<1> row_scale = {}, row_zero = {};
  index row_group = 0, column_group = 0;

  Quantize<Host> op() {
    return {.x = x,
            .scale = scale,
            .zero = zero,
            .y = y,
            .row_scale = row_scale,
            .row_zero = row_zero,
            .row_group = row_group,
            .column_group = column_group};
  }
};

// A scale for all, or one a row from the row itself.
inline QuantizeCase quantize_by(double scale, DType type, DType code, index rows, index cols) {
  QuantizeCase c{.x = {type, {rows, cols}}, .scale = {DType::f32, {1, 1}}, .y = {code, {rows, cols}}};
  c.scale.fill(scale);
  return c;
}
inline QuantizeCase quantize_rows(DType type, DType code, index rows, index cols, bool asymmetric,
                                  std::size_t layout = 0) {
  QuantizeCase c{.x = {type, {rows, cols}, layouts[layout % 3]},
                 .y = {code, {rows, cols}, layouts[(layout + 1) % 3]},
                 .row_scale = {DType::f32, {rows}}};
  if (asymmetric) c.row_zero = Tensor<1>(code, {rows});
  return c;
}

// Every backend gives the same integers and scales: the rounding points are the contract's. What one of them leaves
// as it was differs from what is expected.
inline void compare(const QuantizeCase& start) {
  QuantizeCase right = start, wrong = start;
  right.y.poison(), right.row_scale.poison(), right.row_zero.poison();
  Reference reference;
  ASSERT_TRUE(ok(run(reference, right.op())));
  make_wrong(wrong.y, right.y), make_wrong(wrong.row_scale, right.row_scale),
      make_wrong(wrong.row_zero, right.row_zero);
  against_the_reference(wrong, [&](const QuantizeCase& expected, const QuantizeCase& got) {
    for (const QuantizeCase* result : {&expected, &got}) {
      expect_equal(result->row_scale, right.row_scale, {.nan = true});  // of a row that has none
      expect_equal(result->row_zero, right.row_zero);
      expect_equal(result->y, right.y);
    }
    EXPECT_TRUE(got.y.gaps_untouched());
    EXPECT_TRUE(got.row_zero.gaps_untouched() && got.row_scale.gaps_untouched());
  });
}

INLAY_RUNS_OF(Quantize, extern);

}  // namespace inlay::test
