#include <inlay/ops/quantize.hpp>

#include <Eigen/Core>

#include "tests/quantize/case.hpp"
#include "tests/support/refused.hpp"
#include "tests/support/subnormals.hpp"

namespace inlay::test {
INLAY_RUNS_OF(Quantize);

namespace {

using Case = QuantizeCase;

// Quotients reach beyond every range, and many are ties: halves times a power of two.
TEST(quantize, static_scales_of_every_granularity) {
  Rng rng(1);
  for (const Granularity& g : granularities()) {
    Case c{.x = {g.type, {g.rows, g.cols}, g.layout[0]},
           .scale = {g.scale_type, g.scales, g.layout[2]},
           .y = {g.code, {g.rows, g.cols}, g.layout[1]},
           .row_group = g.row_group,
           .column_group = g.column_group};
    for (index i = 0; i < c.x.size(); ++i) c.x.set(i, static_cast<double>(static_cast<int>(rng() % 801) - 400) / 8);
    const double steps[] = {0.25, 0.3, 5, -0.5, 1.75, 0.0625};
    for (index i = 0; i < c.scale.size(); ++i) c.scale.set(i, steps[rng() % 6]);
    if (g.with_zero) c.zero = Tensor<2>(g.code, g.scales, g.layout[3]).integers(rng, lowest(g.code), highest(g.code));
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

TEST(quantize, dynamic_rows) {
  Rng rng(3);
  for (DType code : codes)
    for (index cols : sizes)
      for (index rows : {index{0}, index{1}, index{5}})
        for (bool asymmetric : {false, true}) {
          if (!asymmetric && (code == DType::u8 || code == DType::u4)) continue;
          Case c = quantize_rows(float_types[static_cast<std::size_t>(cols + rows) % 3], code, rows, cols, asymmetric,
                                 static_cast<std::size_t>(cols));
          // On both sides of zero, above it, and below it: the range holds zero all the same.
          const double low[] = {-2, 0.5, -3}, high[] = {3, 3, -0.5};
          c.x.uniform(rng, low[cols % 3], high[cols % 3]);
          ASSERT_NO_FATAL_FAILURE(compare(c));
        }
}

// Rows enough for each thread to have several, of codes that share bytes.
TEST(quantize, threads_share_the_rows) {
  Rng rng(8);
  for (DType code : codes)
    for (index rows : {6, 7, 12, 31}) {
      Case c = quantize_rows(DType::f32, code, rows, 37, true);
      c.x.uniform(rng, -2, 3);
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

TEST(quantize, reference_agrees_with_eigen) {
  Rng rng(5);
  Case c{.x = {DType::f32, {4, 129}}, .scale = {DType::f32, {4, 1}}, .y = {DType::i8, {4, 129}}};
  c.x.uniform(rng, -50, 50);
  c.scale.uniform(rng, 0.2, 1);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  using Matrix = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Matrix x = Eigen::Map<Matrix>(c.x.data<float>(), 4, 129);
  const Eigen::ArrayXf scale = Eigen::Map<Eigen::ArrayXf>(c.scale.data<float>(), 4);
  const Matrix q = (x.colwise() / scale).rint().max(-128).min(127);
  for (int i = 0; i < 4 * 129; ++i) EXPECT_EQ(c.y.get(i), q(i / 129, i % 129)) << i;
}

// Flushed or not, codes times their scale are the row to within half a step, and what rounding a subnormal scale
// makes of 255 steps. A row that flushing leaves without a scale has the codes of zero.
TEST(quantize, subnormals) {
  Rng rng(7);
  for (DType type : float_types)
    for (bool asymmetric : {false, true})
      for (index cols : subnormal_sizes) {
        Case c = quantize_rows(type, DType::i8, 2, cols, asymmetric);
        subnormals(c.x, rng);
        c.y.poison(), c.row_scale.poison(), c.row_zero.poison();
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
  Case c{.x = {DType::f32, {4, 8}}, .scale = {DType::f32, {4, 1}}, .y = {DType::i8, {4, 8}}};
  Tensor<2> other(DType::f32, {3, 1}), wide(DType::f32, {4, 3});
  Tensor<2> zero(DType::u8, {4, 1});
  Tensor<1> row_scale(DType::f32, {4}), row_zero(DType::i8, {4});
  const Refused refused(c.op());
  refused([&](auto& op) { op.scale = other; }, {"scale", "[3, 1]", "4"});
  refused([&](auto& op) { op.scale = wide, op.column_group = 4; }, {"scale", "[4, 3]", "8", "column_group"});
  refused([&](auto& op) { op.row_scale = row_scale; }, {"scale", "row_scale"});
  refused([&](auto& op) { op.scale = {}; }, {"scale", "must be given"});
  refused([&](auto& op) { op.zero = zero; }, {"zero", "u8", "i8"});
  refused([&](auto& op) { op.y.dtype = DType::i32; }, {"y", "i32", "i8"});
  refused([&](auto& op) { op.row_zero = row_zero; }, {"row_zero", "row_scale"});
  refused([&](auto& op) { op.column_group = -1; }, {"column_group", "-1"});
  expect_refused(quantize_rows(DType::f32, DType::u8, 4, 8, false).op(), {"row_zero", "u8"});
  expect_refused(quantize_rows(DType::f32, DType::u4, 4, 8, false).op(), {"row_zero", "u4"});
  Tensor<2> integers(DType::i32, {4, 8}), short_y(DType::i8, {4, 7}), zero_of_all(DType::i8, {1, 1});
  Tensor<2> whole_scale(DType::i8, {4, 1}), two_blocks(DType::f32, {2, 1}), zeros(DType::i8, {4, 1});
  Tensor<1> half_scale(DType::f16, {4}), three_scales(DType::f32, {3}), u8_zero(DType::u8, {4}),
      three_zeros(DType::i8, {3});
  refused([&](auto& q) { q.x = integers; }, {"x", "i32"});
  refused([&](auto& q) { q.y = short_y; }, {"y", "[4, 7]", "[4, 8]"});
  refused([&](auto& q) { q.row_group = -3; }, {"row_group", "-3"});
  refused([&](auto& q) { q.scale = whole_scale; }, {"scale", "i8"});
  refused([&](auto& q) { q.scale = two_blocks, q.row_group = 3, q.column_group = 7; },
          {"scale", "[2, 1]", "column_group"});
  refused([&](auto& q) { q.scale = two_blocks, q.row_group = 4; }, {"scale", "[2, 1]", "row_group"});
  refused([&](auto& q) { q.zero = zero_of_all; }, {"zero", "[1, 1]", "[4, 1]"});
  Case dynamic = quantize_rows(DType::f32, DType::i8, 4, 8, true);
  const Refused refused_dynamic(dynamic.op());
  refused_dynamic([&](auto& q) { q.zero = zeros; }, {"zero", "row_scale"});
  refused_dynamic([&](auto& q) { q.row_scale = half_scale; }, {"row_scale", "f16", "f32"});
  refused_dynamic([&](auto& q) { q.row_scale = three_scales; }, {"row_scale", "3", "4"});
  refused_dynamic([&](auto& q) { q.row_zero = u8_zero; }, {"row_zero", "u8", "i8"});
  refused_dynamic([&](auto& q) { q.row_zero = three_zeros; }, {"row_zero", "3", "4"});
}

}  // namespace
}  // namespace inlay::test
