#include <inlay/ops/quantize.hpp>

#include <Eigen/Core>

#include "tests/support/backends.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/quantized.hpp"
#include "tests/support/subnormals.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

struct Case {
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

Case make(DType type, DType code, index rows, index cols, std::array<index, 2> scales, Layout layout, Rng& rng) {
  Case c{.x = {type, {rows, cols}, layout}, .scale = {DType::f32, scales}, .y = {code, {rows, cols}, layout}};
  // Quotients reach beyond every range, and many are ties: halves times a power of two.
  for (index i = 0; i < c.x.size(); ++i) c.x.set(i, static_cast<double>(static_cast<int>(rng() % 801) - 400) / 8);
  for (index i = 0; i < c.scale.size(); ++i) c.scale.set(i, i % 3 == 0 ? 0.25 : i % 3 == 1 ? 0.3 : 5);
  c.y.poison();
  return c;
}

Case make_dynamic(DType type, DType code, index rows, index cols, bool asymmetric, Layout layout) {
  Case c{.x = {type, {rows, cols}, layout}, .y = {code, {rows, cols}, layout}, .row_scale = {DType::f32, {rows}}};
  if (asymmetric) c.row_zero = Tensor<1>(code, {rows}).poison();
  c.y.poison();
  c.row_scale.poison();
  return c;
}

// Every backend gives the same integers and scales: the rounding points are the contract's.
void compare(const Case& start) {
  against_the_reference(start, [&](const Case& expected, const Case& got) {
    expect_equal(got.row_scale, expected.row_scale);
    expect_equal(got.row_zero, expected.row_zero);
    expect_equal(got.y, expected.y);
    EXPECT_TRUE(got.y.gaps_untouched());
    EXPECT_TRUE(got.row_zero.gaps_untouched());
  });
}

TEST(quantize, static_scales_of_every_granularity) {
  Rng rng(1);
  for (const Granularity& g : granularities()) {
    Case c = make(g.type, g.code, g.rows, g.cols, g.scales, g.layout, rng);
    c.row_group = g.row_group, c.column_group = g.column_group;
    if (g.with_zero) c.zero = Tensor<2>(g.code, g.scales).integers(rng, lowest(g.code), highest(g.code));
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

TEST(quantize, dynamic_rows) {
  Rng rng(3);
  for (DType code : codes)
    for (index cols : sizes)
      for (index rows : {index{0}, index{1}, index{5}}) {
        const bool asymmetric = code == DType::u8 || code == DType::u4 || cols % 2;
        const DType type = float_types[static_cast<std::size_t>(cols + rows) % 3];
        Case c = make_dynamic(type, code, rows, cols, asymmetric, layouts[static_cast<std::size_t>(cols) % 3]);
        c.x.uniform(rng, cols % 3 == 0 ? 0.5 : -2, 3);
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

TEST(quantize, f16_and_bf16_scales) {
  Rng rng(4);
  for (DType type : {DType::f16, DType::bf16}) {
    Case c = make(DType::f16, DType::i8, 3, 33, {1, 33}, {}, rng);
    c.scale = Tensor<2>(type, {1, 33}).uniform(rng, 0.1, 1);
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

// Ties go to even, ranges saturate, zero points move: written out by hand.
TEST(quantize, worked_example) {
  Case c{
      .x = {DType::f32, {1, 8}}, .scale = {DType::f32, {1, 1}}, .zero = {DType::u8, {1, 1}}, .y = {DType::u8, {1, 8}}};
  const double x[] = {1, 3, 5, -1, -3, 1000, -1000, std::nan("")}, expected[] = {128, 130, 130, 128, 126, 255, 0, 128};
  for (int i = 0; i < 8; ++i) c.x.set(i, x[i]);
  c.scale.fill(2);
  c.zero.fill(128);
  on_every_backend([&](const std::string&, auto run) {
    Case got = c;
    ASSERT_TRUE(ok(run(got.op())));
    for (int i = 0; i < 8; ++i) EXPECT_EQ(got.y.get(i), expected[i]) << i;
  });
}

TEST(quantize, reference_agrees_with_eigen) {
  Rng rng(5);
  Case c = make(DType::f32, DType::i8, 4, 129, {4, 1}, {}, rng);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  using Matrix = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Matrix x = Eigen::Map<Matrix>(c.x.data<float>(), 4, 129);
  const Eigen::ArrayXf scale = Eigen::Map<Eigen::ArrayXf>(c.scale.data<float>(), 4);
  const Matrix q = (x.colwise() / scale).rint().max(-128).min(127);
  for (int i = 0; i < 4 * 129; ++i) EXPECT_EQ(c.y.get(i), q(i / 129, i % 129)) << i;
}

TEST(quantize, rows_without_a_scale) {
  Case c{.x = {DType::f32, {4, 20}}, .y = {DType::i8, {4, 20}}, .row_scale = {DType::f32, {4}}};
  c.x.fill(1);
  c.x.set(3, std::nan(""));
  c.x.set(25, -std::numeric_limits<double>::infinity());
  for (int i = 40; i < 60; ++i) c.x.set(i, 0);
  on_every_backend([&](const std::string&, auto run) {
    Case got = c;
    got.y.poison();
    ASSERT_TRUE(ok(run(got.op())));
    EXPECT_TRUE(std::isnan(got.row_scale.get(0)));
    EXPECT_TRUE(std::isnan(got.row_scale.get(1)));
    EXPECT_EQ(got.row_scale.get(2), 0);
    for (int i = 0; i < 60; ++i) EXPECT_EQ(got.y.get(i), 0) << i;
    for (int i = 60; i < 80; ++i) EXPECT_EQ(got.y.get(i), 127) << i;
  });
}

// Flushed or not, codes times their scale are the row to within half a step, and what rounding a subnormal scale
// makes of 255 steps. A row that flushing leaves without a scale has the codes of zero.
TEST(quantize, subnormals) {
  Rng rng(7);
  for (DType type : float_types)
    for (bool asymmetric : {false, true})
      for (index cols : subnormal_sizes) {
        Case c = make_dynamic(type, DType::i8, 2, cols, asymmetric, {});
        subnormals(c.x, rng);
        with_and_without_flushing(c, [&](const Case& expected, const Case& got, double lost) {
          if (lost == 0) {
            expect_equal(got.row_scale, expected.row_scale);
            expect_equal(got.y, expected.y);
          }
          for (index i = 0; i < got.y.size(); ++i) {
            const double rounded = 255 * underflow(DType::f32);
            const double scale = got.row_scale.get(i / cols), zero = asymmetric ? got.row_zero.get(i / cols) : 0;
            ASSERT_GE(scale, 0) << i;
            ASSERT_LE(std::abs((got.y.get(i) - zero) * scale - c.x.get(i)),
                      scale / 2 * (1 + 0x1p-16) + rounded + 2 * lost)
                << i;
          }
        });
      }
}

TEST(quantize, refuses_what_the_contract_does_not_cover) {
  Rng rng(6);
  Case c = make(DType::f32, DType::i8, 4, 8, {4, 1}, {}, rng);
  Tensor<2> other(DType::f32, {3, 1}), wide(DType::f32, {4, 3});
  Tensor<2> zero(DType::u8, {4, 1});
  Tensor<1> row_scale(DType::f32, {4}), row_zero(DType::i8, {4});
  Quantize<Host> op = c.op();
  op.scale = other;
  expect_refused(op, {"scale", "[3, 1]", "4"});
  op = c.op();
  op.scale = wide;
  op.column_group = 4;
  expect_refused(op, {"scale", "[4, 3]", "8", "column_group"});
  op = c.op();
  op.row_scale = row_scale;
  expect_refused(op, {"scale", "row_scale"});
  op = c.op();
  op.scale = {};
  expect_refused(op, {"scale", "must be given"});
  op = c.op();
  op.zero = zero;
  expect_refused(op, {"zero", "u8", "i8"});
  op = c.op();
  op.y.dtype = DType::i32;
  expect_refused(op, {"y", "i32", "i8"});
  op = c.op();
  op.row_zero = row_zero;
  expect_refused(op, {"row_zero", "row_scale"});
  op = c.op();
  op.column_group = -1;
  expect_refused(op, {"column_group", "-1"});
  expect_refused(make_dynamic(DType::f32, DType::u8, 4, 8, false, {}).op(), {"row_zero", "u8"});
}

}  // namespace
}  // namespace inlay::test
