#include <inlay/ops/swiglu.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/elementwise.hpp"
#include "tests/support/onnx.hpp"
#include "tests/support/refused.hpp"
#include "tests/support/subnormals.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// Everything that one case needs, so that backends start from the same bytes.
struct Case {
  Tensor<2> gate, up, y;
  float alpha = 1, limit = infinity, up_offset = 0;

  Swiglu<Host> op() { return {.gate = gate, .up = up, .y = y, .alpha = alpha, .limit = limit, .up_offset = up_offset}; }
  Case unrounded() const { return {gate.widened(), up.widened(), y.widened(), alpha, limit, up_offset}; }
};

// Every view has rows of its own.
Case make(DType type, index rows, index dim, std::size_t layout) {
  const auto of = [&](std::size_t i) { return layouts[(layout + i) % 3]; };
  Case c{.gate = {type, {rows, dim}, of(0)}, .up = {type, {rows, dim}, of(1)}, .y = {type, {rows, dim}, of(2)}};
  c.y.poison();
  return c;
}

// In eps: the exponential of -|z| is off by 3 and by the rounding of z = alpha g, |z|, which reach the sigmoid damped
// by 1 - sigmoid(z). Its sum, its quotient, the offset, two products and what is expected are rounded once each. Where
// the exponential is subnormal, it is off by 1.5 of its steps of 2^-149 and the quotient by half of one, and where the
// first product is, by half of one too.
double scale_of(const Case& c, double expected, index k) {
  const double g = std::min<double>(c.gate.get(k), c.limit), z = static_cast<double>(c.alpha) * g;
  const double u = std::clamp<double>(c.up.get(k), -c.limit, c.limit) + c.up_offset;
  const double damping = 1 / (1 + std::exp(std::min(z, 700.0)));
  const double subnormal = (z < -80 ? std::abs(g) * 0x1p-148 : 0) + 0x1p-150;
  return (6 + (3 + std::abs(z)) * damping) * std::abs(expected) + std::abs(u) * subnormal / 0x1p-24;
}

void compare(const Case& start) {
  std::vector<double> scale;
  against_the_reference(start, [&](const Case& expected, const Case& got) {
    for (index k = static_cast<index>(scale.size()); k < got.y.size(); ++k)
      scale.push_back(scale_of(start, expected.y.get(k), k));
    expect_close(got.y, expected.y, 1, [&](index k) { return scale[k]; });
    EXPECT_TRUE(got.y.gaps_untouched());
  });
}

TEST(swiglu, sweep) {
  Rng rng(1);
  for (DType type : float_types)
    for (index dim : sizes)
      for (index rows : row_counts) {
        Case start = make(type, rows, dim, static_cast<std::size_t>(dim + rows));
        start.gate.uniform(rng, -20, 20);
        start.up.uniform(rng, -10, 10);
        if (dim % 2) start.alpha = 1.702f, start.limit = 7, start.up_offset = 1;
        ASSERT_NO_FATAL_FAILURE(compare(start));
      }
}

TEST(swiglu, threads_share_the_work) {
  Rng rng(2);
  for (const auto& [rows, dim] : rows_around_the_grain()) {
    Case c = make(DType::bf16, rows, dim, 1);
    c.gate.uniform(rng, -9, 9);
    c.up.uniform(rng);
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

// Each parameter alone, of either sign: gates are limited from above only, the other operand on both sides.
TEST(swiglu, parameters_one_by_one) {
  Rng rng(3);
  struct Parameters {
    float alpha = 1, limit = infinity, up_offset = 0;
  };
  for (const Parameters& p :
       {Parameters{.alpha = -1.5f}, Parameters{.alpha = 0}, Parameters{.alpha = 0.25f}, Parameters{.limit = 0.5f},
        Parameters{.limit = 30}, Parameters{.up_offset = -0.375f}, Parameters{.alpha = 3, .limit = 2, .up_offset = 5}})
    for (DType type : float_types) {
      Case c = make(type, 3, 65, 0);
      c.gate.uniform(rng, -40, 40);
      c.up.uniform(rng, -40, 40);
      c.alpha = p.alpha, c.limit = p.limit, c.up_offset = p.up_offset;
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// Every 16-bit number as a gate, and floats of every size: to where the sigmoid is subnormal, and 0.
TEST(swiglu, every_gate) {
  for (DType type : {DType::f16, DType::bf16}) {
    Case c = make(type, 2, 32768, 0);
    std::vector<std::uint16_t> bits(65536);
    for (index k = 0; k < 65536; ++k) {
      bits[k] = static_cast<std::uint16_t>(k);
      const double value = load_element(bits.data(), type, k);
      c.gate.set(k, std::isfinite(value) ? value : 1);
    }
    c.up.fill(0.75);
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
  Case c = make(DType::f32, 1, 40000, 0);
  for (index k = 0; k < 40000; ++k) c.gate.set(k, static_cast<double>(k - 22000) / 200);  // -110 .. 90
  c.up.fill(1e10);
  ASSERT_NO_FATAL_FAILURE(compare(c));
}

// The two halves of a fused projection, and y over either of them.
TEST(swiglu, halves_of_one_row_in_place) {
  Rng rng(4);
  const index rows = 3, dim = 67;
  for (DType type : float_types) {
    Tensor<2> fused(type, {rows, 2 * dim}), expected(DType::f32, {rows, dim}), got_half(type, {rows, dim});
    fused.uniform(rng, -5, 5);
    const auto op = [&](Tensor<2>& rows_of, View<2> y) {
      return Swiglu<Host>{.gate = rows_of.view().slice(1, 0, dim), .up = rows_of.view().slice(1, dim, dim), .y = y};
    };
    Case apart = make(type, rows, dim, 0);
    for (index k = 0; k < rows * dim; ++k) {
      apart.gate.set(k, fused.get(k / dim * 2 * dim + k % dim));
      apart.up.set(k, fused.get(k / dim * 2 * dim + dim + k % dim));
    }
    Tensor<2> wide = fused.widened();
    Reference reference;
    ASSERT_TRUE(ok(run(reference, op(wide, expected))));
    on_every_backend([&](const std::string&, auto run) {
      for (index half : {index{0}, dim}) {
        Tensor<2> got = fused;
        ASSERT_TRUE(ok(run(op(got, got.view().slice(1, half, dim)))));
        for (index k = 0; k < rows * dim; ++k) {
          const index at = k / dim * 2 * dim + k % dim;
          got_half.set(k, got.get(at + half));
          ASSERT_EQ(got.get(at + dim - half), fused.get(at + dim - half));
        }
        expect_close(got_half, expected, 1, [&](index k) { return scale_of(apart, expected.get(k), k); });
      }
    });
  }
}

// Ends, and the signs of zeros. What is not finite follows the formula.
TEST(swiglu, extremes) {
  const double inf = infinity, nan = std::nan("");
  const double gates[] = {0,    -0.0,  88, 89,  104, 1e5, inf, -80, -88,   -104, -1e5, nan, 1,
                          3e38, -3e38, 16, -16, 0.0, 0.0, 1,   1,   1e-40, -inf, 2,    2,   -2};
  const double ups[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, nan, 1, 1, -1, -1, -1, inf, inf, -inf, 1, 1, 0, -0.0, 0};
  constexpr index n = std::size(gates);
  static_assert(std::size(ups) == n);
  for (float limit : {infinity, 7.0f})
    for (float alpha : {1.0f, 2e38f}) {
      Case start = make(DType::f32, 1, n, 0);
      start.limit = limit, start.alpha = alpha;
      for (index k = 0; k < n; ++k) start.gate.set(k, gates[k]), start.up.set(k, ups[k]);
      against_the_reference(start, [&](const Case& expected, const Case& got) {
        for (index k = 0; k < n; ++k) {
          SCOPED_TRACE(describe("gate", gates[k], "up", ups[k], "limit", limit, "alpha", alpha));
          const double g = std::min<double>(gates[k], limit), y = got.y.get(k), e = expected.y.get(k);
          if (std::isnan(e)) {
            EXPECT_TRUE(std::isnan(y));
            EXPECT_TRUE(std::isnan(gates[k]) || std::isnan(ups[k]) || gates[k] == -inf || ups[k] > 1e38) << "answers";
            continue;
          }
          EXPECT_EQ(std::signbit(y), std::signbit(e));
          if (std::isinf(e) || e == 0)
            EXPECT_EQ(y, e);
          else
            EXPECT_NEAR(y, e, std::abs(e) * 0x1p-20 + std::abs(g) * 0x1p-147);
        }
        EXPECT_TRUE(std::isnan(got.y.get(11)) && std::isnan(got.y.get(12)) && std::isnan(got.y.get(22)));
        EXPECT_EQ(std::isnan(got.y.get(18)), limit == infinity);
        EXPECT_EQ(std::isinf(got.y.get(6)), limit == infinity);
      });
    }
}

TEST(swiglu, agrees_with_onnx) {
  INLAY_NEEDS_DATA("onnx_node/LICENSE");
  struct Node {
    const char* name;
    float alpha;
  };
  for (const Node& node : {Node{"test_swiglu", 1}, Node{"test_swiglu_alpha", 0.5f}, Node{"test_swiglu_float16", 1}}) {
    const OnnxTensor gate = onnx_tensor(node.name, "input_0"), up = onnx_tensor(node.name, "input_1");
    const OnnxTensor expected = onnx_tensor(node.name, "output_0");
    const std::array<index, 2> shape{1, gate.size()};
    on_every_backend([&](const std::string&, auto run) {
      Tensor<2> y(gate.dtype, shape);
      ASSERT_TRUE(
          ok(run(Swiglu<Host>{.gate = gate.view<2>(shape), .up = up.view<2>(shape), .y = y, .alpha = node.alpha})));
      // ONNX rounds every step to the type: three roundings, where ours has one.
      for (index k = 0; k < y.size(); ++k)
        ASSERT_LE(std::abs(y.get(k) - expected.get(k)),
                  (gate.dtype == DType::f32 ? 16 : 6) * epsilon(gate.dtype) * std::abs(expected.get(k)));
    });
  }
}

TEST(swiglu, subnormals) {
  Rng rng(6);
  for (DType type : float_types)
    for (bool small_gate : {false, true})
      for (index dim : subnormal_sizes) {
        SCOPED_TRACE(small_gate ? "small gate" : "small up");
        Case c = make(type, 2, dim, 0);
        c.gate.uniform(rng), c.up.uniform(rng);
        subnormals(small_gate ? c.gate : c.up, rng, dim % 2);
        with_and_without_flushing(c, [&](const Case& expected, const Case& got, double lost) {
          // An operand and two products, by factors of at most 1.
          const auto scale = [&](index k) { return scale_of(c, expected.y.get(k), k); };
          expect_close(got.y, expected.y, 1, scale, {.lost = 3 * lost});
        });
      }
}

// Far out, where the exponential is subnormal: flushed or not, it is off by a subnormal number at most.
TEST(swiglu, tails_that_are_flushed) {
  Rng rng(7);
  for (DType type : {DType::f32, DType::bf16}) {
    Case c = make(type, 2, 129, 0);
    c.gate.uniform(rng, -110, -80), c.up.uniform(rng);
    with_and_without_flushing(c, [&](const Case& expected, const Case& got, double lost) {
      const auto scale = [&](index k) { return scale_of(c, expected.y.get(k), k); };
      expect_close(got.y, expected.y, 1, scale, {.lost = 110 * lost});
    });
  }
}

TEST(swiglu, refuses_what_the_contract_does_not_cover) {
  Tensor<2> a(DType::f32, {3, 8}), b(DType::f32, {3, 7}), y(DType::f32, {3, 8}), half(DType::f16, {3, 8});
  const Refused refused(Swiglu<Host>{.gate = a, .up = a, .y = y});
  refused([&](auto& op) { op.up = b; }, {"up", "[3, 7]", "[3, 8]"});
  refused([&](auto& op) { op.up = half; }, {"up", "f16", "f32", "gate"});
  refused([&](auto& op) { op.limit = 0; }, {"limit", "0", "above 0"});
  refused([&](auto& op) { op.alpha = std::numeric_limits<float>::infinity(); }, {"alpha", "inf"});
  refused([&](auto& op) { op.y = half; }, {"y", "f16", "f32"});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Tensor<2> integers(DType::i8, {3, 8});
  refused([&](auto& op) { op.gate = integers, op.up = integers, op.y = integers; }, {"gate", "i8"});
  refused([&](auto& op) { op.y = b; }, {"y", "[3, 7]", "[3, 8]"});
  refused([&](auto& op) { op.limit = nan; }, {"limit", "nan"});
  refused([&](auto& op) { op.limit = -1; }, {"limit", "-1"});
  refused([&](auto& op) { op.up_offset = nan; }, {"up_offset", "nan"});
  Tensor<2> wide(DType::f32, {3, 9});
  const auto columns = [&](index first) { return wide.view().slice(1, first, 8); };
  refused([&](auto& op) { op.gate = columns(0), op.y = columns(1); }, {"y", "overlaps", "gate"});
  refused([&](auto& op) { op.up = columns(0), op.y = columns(1); }, {"y", "overlaps", "up"});
}

}  // namespace
}  // namespace inlay::test
