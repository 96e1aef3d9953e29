#include <inlay/ops/add.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/refused.hpp"
#include "tests/support/subnormals.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

// Everything that one case needs, so that backends start from the same bytes.
struct Case {
  Tensor<2> a, b, y;

  Add<Host> op() { return {.a = a, .b = b, .y = y}; }
  Case unrounded() const { return {a.widened(), b, y.widened()}; }
};

Case make(DType type, DType other, index rows, index b_rows, index dim, Layout layout, Rng& rng) {
  Case c{.a = {type, {rows, dim}, layout}, .b = {other, {b_rows, dim}, layout}, .y = {type, {rows, dim}, layout}};
  c.a.uniform(rng);
  c.b.uniform(rng);
  c.y.poison();
  return c;
}

// One f32 addition, rounded to nearest, then to y's type: the double sum rounded to f32 once is the same number
// (Figueroa), so no tolerance but the last rounding.
void compare(const Case& start) {
  against_the_reference(start, [&](const Case& expected, const Case& got) {
    expect_close(got.y, expected.y, 0);
    EXPECT_TRUE(got.y.gaps_untouched());
  });
}

TEST(add, sweep) {
  Rng rng(1);
  for (DType type : float_types)
    for (DType other : {DType::f32, type})
      for (index dim : sizes)
        for (index rows : row_counts)
          for (const Layout& layout : layouts)
            ASSERT_NO_FATAL_FAILURE(compare(make(type, other, rows, dim % 3 ? rows : 1, dim, layout, rng)));
}

TEST(add, long_rows_are_cut_for_threads) {
  Rng rng(2);
  for (index dim : {16383, 16385, 50001})
    for (index b_rows : {2, 1})  // one: a bias whose pieces go with those of the rows
      ASSERT_NO_FATAL_FAILURE(compare(make(DType::f32, DType::bf16, 2, b_rows, dim, {}, rng)));
}

TEST(add, in_place_on_either_side) {
  Rng rng(3);
  const Case start = make(DType::bf16, DType::bf16, 3, 3, 65, {}, rng);
  Case apart = start.unrounded();
  Reference reference;
  ASSERT_TRUE(ok(run(reference, apart.op())));
  on_every_backend([&](const std::string&, auto run) {
    Case left = start, right = start;
    ASSERT_TRUE(ok(run(Add<Host>{.a = left.a, .b = left.b, .y = left.a})));
    ASSERT_TRUE(ok(run(Add<Host>{.a = right.a, .b = right.b, .y = right.b})));
    expect_close(left.a, apart.y, 0);
    expect_close(right.b, apart.y, 0);
  });
}

TEST(add, infinities_cancel_to_nan_and_overflow_to_infinity) {
  on_every_backend([&](const std::string&, auto run) {
    const double inf = std::numeric_limits<double>::infinity();
    Tensor<2> a(DType::f16, {1, 3}), b(DType::f16, {1, 3}), y(DType::f16, {1, 3});
    a.set(0, inf), b.set(0, -inf);
    a.set(1, 65504), b.set(1, 65504);
    a.set(2, 1), b.set(2, std::nan(""));
    ASSERT_TRUE(ok(run(Add<Host>{.a = a, .b = b, .y = y})));
    EXPECT_TRUE(std::isnan(y.get(0)));
    EXPECT_EQ(y.get(1), inf);
    EXPECT_TRUE(std::isnan(y.get(2)));
  });
}

TEST(add, subnormals) {
  Rng rng(4);
  for (DType type : float_types)
    for (index dim : subnormal_sizes) {
      Case c = make(type, type, 2, 2, dim, {}, rng);
      subnormals(c.a, rng), subnormals(c.b, rng, dim % 2);
      c.a.set(0, 2 * underflow(type)), c.b.set(0, 0);
      with_and_without_flushing(c, [&](const Case& expected, const Case& got, double lost) {
        if (lost > 0 && FlushToZero::works && type != DType::f16) {
          ASSERT_EQ(got.y.get(0), 0);
        }
        // Two operands and a sum.
        expect_close(got.y, expected.y, 0, {.lost = 3 * lost});
      });
    }
}

TEST(add, refuses_what_the_contract_does_not_cover) {
  Tensor<2> a(DType::f32, {3, 8}), b(DType::f32, {2, 8}), y(DType::f32, {3, 8}), short_rows(DType::f32, {3, 7});
  const Refused refused(Add<Host>{.a = a, .b = a, .y = y});
  refused([&](auto& op) { op.b = b; }, {"b", "2 rows", "3"});
  refused([&](auto& op) { op.b = short_rows; }, {"b", "7", "8"});
  refused([&](auto& op) { op.y = short_rows; }, {"y", "[3, 7]", "[3, 8]"});
  Tensor<2> half(DType::f16, {3, 8}), integers(DType::i32, {3, 8});
  refused([&](auto& op) { op.y = half; }, {"y", "f16", "f32", "a"});
  refused([&](auto& op) { op.a = integers, op.y = integers; }, {"a", "i32"});
  // In place over a bias of one row would change it for the rows that follow.
  Tensor<2> row(DType::f32, {1, 8});
  View<2> over = row;
  over.extents[0] = 3;
  over.strides[0] = 0;
  refused([&](auto& op) { op.b = row, op.y = over; }, {"y", "[0, 1]", "share memory"});
}

}  // namespace
}  // namespace inlay::test
