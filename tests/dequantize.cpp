#include <inlay/ops/dequantize.hpp>

#include <Eigen/Core>

#include "tests/support/backends.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/quantized.hpp"
#include "tests/support/refused.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

struct Case {
  Tensor<2> x, scale, zero = {}, y;
  index row_group = 0, column_group = 0;
  bool nan = false;  // what is expected holds NaN

  Dequantize<Host> op() {
    return {.x = x, .scale = scale, .zero = zero, .y = y, .row_group = row_group, .column_group = column_group};
  }
};

// Rounded where the contract says, so there is nothing to tolerate.
void compare(const Case& start) {
  against_the_reference(start, [&](const Case& expected, const Case& got) {
    expect_equal(got.y, expected.y, {.nan = start.nan});
    EXPECT_TRUE(got.y.gaps_untouched());
  });
}

// Scales of some types give subnormal numbers or infinity in y's.
TEST(dequantize, every_granularity) {
  Rng rng(1);
  for (const Granularity& g : granularities()) {
    Case c{.x = {g.code, {g.rows, g.cols}, g.layout[0]},
           .scale = {g.scale_type, g.scales, g.layout[2]},
           .y = {g.type, {g.rows, g.cols}, g.layout[1]},
           .row_group = g.row_group,
           .column_group = g.column_group};
    c.x.integers(rng, lowest(g.code), highest(g.code));
    c.scale.uniform(rng, -1, 1);
    for (index i = 0; i < c.scale.size(); i += 3) c.scale.set(i, c.scale.get(i) * (rng() % 2 ? 3000.0 : 0x1p-18));
    if (g.with_zero) c.zero = Tensor<2>(g.code, g.scales, g.layout[3]).integers(rng, lowest(g.code), highest(g.code));
    c.y.poison();
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

// Every code with every zero point, whose difference is exact, and a scale with all its bits: by hand.
TEST(dequantize, every_code_and_zero_point) {
  const float scale = 0.123456789f;
  for (DType code : codes)
    for (DType type : float_types) {
      const int low = lowest(code), count = highest(code) - low + 1;
      Case c{.x = {code, {count, count}}, .scale = {DType::f32, {1, count}}, .y = {type, {count, count}}};
      c.zero = Tensor<2>(code, {1, count});
      c.scale.fill(scale);
      for (index k = 0; k < c.x.size(); ++k) c.x.set(k, low + static_cast<double>(k / count));
      for (index k = 0; k < count; ++k) c.zero.set(k, low + static_cast<double>(k));
      on_every_backend([&](const std::string&, auto run) {
        Case got = c;
        got.y.poison();
        ASSERT_TRUE(ok(run(got.op())));
        for (index k = 0; k < c.x.size(); ++k) {
          const float y = static_cast<float>(k / count - k % count) * scale;
          ASSERT_EQ(got.y.get(k), round_to(type, y)) << k / count + low << " - " << k % count + low;
        }
      });
    }
}

TEST(dequantize, scales_that_are_no_numbers) {
  const double inf = std::numeric_limits<double>::infinity();
  for (DType code : codes)
    for (DType type : float_types) {
      Case c{.x = {code, {3, 35}}, .scale = {DType::f32, {3, 1}}, .y = {type, {3, 35}}, .nan = true};
      c.zero = Tensor<2>(code, {3, 1}).fill(1);
      for (index k = 0; k < c.x.size(); ++k) c.x.set(k, static_cast<double>(k % 3));
      c.scale.set(0, std::nan("")), c.scale.set(1, inf), c.scale.set(2, 3e38);
      c.y.fill(5);
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// More rows than threads, each with a last register cut short.
TEST(dequantize, threads_share_the_rows) {
  Rng rng(6);
  for (DType code : codes)
    for (index rows : {4, 7, 12, 31}) {
      Case c{.x = {code, {rows, 37}}, .scale = {DType::f32, {rows, 1}}, .y = {DType::f32, {rows, 37}}};
      c.x.integers(rng, lowest(code), highest(code));
      c.scale.uniform(rng);
      c.y.poison();
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// Half a step, and what the f32 quotient and product round off: |x| / step roundings of half an ulp.
TEST(dequantize, undoes_quantize_to_half_a_step) {
  Rng rng(3);
  for (DType code : codes) {
    Tensor<2> x(DType::f32, {3, 258}), back(DType::f32, {3, 258}), q(code, {3, 258});
    Tensor<1> scale(DType::f32, {3}), zero(code, {3});
    x.uniform(rng, -3, 5);
    on_every_backend([&](const std::string&, auto run) {
      ASSERT_TRUE(ok(run(Quantize<Host>{.x = x, .y = q, .row_scale = scale, .row_zero = zero})));
      const View<2> scales(scale.data<float>(), {3, 1});
      for (index t = 0; t < 3; ++t) {
        Tensor<2> z(code, {1, 1});
        z.fill(zero.get(t));
        ASSERT_TRUE(ok(run(Dequantize<Host>{.x = q.view().slice(0, t, 1),
                                            .scale = scales.slice(0, t, 1),
                                            .zero = z,
                                            .y = back.view().slice(0, t, 1)})));
      }
      for (index i = 0; i < x.size(); ++i) {
        // The zero point itself is rounded: the ends of the range may lose half a step more.
        const double step = scale.get(i / 258);
        ASSERT_LE(std::abs(back.get(i) - x.get(i)), step * 1.0001) << i;
      }
    });
  }
}

TEST(dequantize, reference_agrees_with_eigen) {
  Rng rng(4);
  Case c{.x = {DType::i8, {4, 65}}, .scale = {DType::f32, {1, 65}}, .y = {DType::f32, {4, 65}}};
  c.x.integers(rng, -128, 127);
  c.scale.uniform(rng);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  using Matrix = Eigen::Array<std::int8_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::ArrayXXf q = Eigen::Map<Matrix>(c.x.data<std::int8_t>(), 4, 65).cast<float>();
  const Eigen::ArrayXf scale = Eigen::Map<Eigen::ArrayXf>(c.scale.data<float>(), 65);
  for (int t = 0; t < 4; ++t)
    for (int i = 0; i < 65; ++i) EXPECT_EQ(c.y.get(t * 65 + i), q(t, i) * scale(i));
}

TEST(dequantize, refuses_what_the_contract_does_not_cover) {
  Case c{.x = {DType::i8, {4, 8}}, .scale = {DType::f32, {4, 1}}, .y = {DType::f32, {4, 8}}};
  Tensor<2> other(DType::f32, {3, 1}), zero(DType::u8, {4, 1}), zeros(DType::i8, {1, 1});
  const Refused refused(c.op());
  refused([&](auto& op) { op.scale = other; }, {"scale", "[3, 1]", "4"});
  refused([&](auto& op) { op.zero = zero; }, {"zero", "u8", "i8"});
  refused([&](auto& op) { op.zero = zeros; }, {"zero", "[1, 1]", "[4, 1]"});
  refused([&](auto& op) { op.x.dtype = DType::i32; }, {"x", "i32"});
  refused([&](auto& op) { op.y.dtype = DType::i8; }, {"y", "i8", "f32"});
  refused([&](auto& op) { op.row_group = -2; }, {"row_group", "-2"});
  refused([&](auto& op) { op.column_group = -1; }, {"column_group", "-1"});
  Tensor<2> short_y(DType::f32, {4, 7}), codes_as_scale(DType::i8, {4, 1}), two_blocks(DType::f32, {4, 2});
  refused([&](auto& op) { op.y = short_y; }, {"y", "[4, 7]", "[4, 8]"});
  refused([&](auto& op) { op.scale = codes_as_scale; }, {"scale", "i8"});
  refused([&](auto& op) { op.scale = two_blocks, op.column_group = 3; }, {"scale", "[4, 2]", "column_group"});
}

}  // namespace
}  // namespace inlay::test
