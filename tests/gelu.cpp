#include <inlay/ops/gelu.hpp>

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

constexpr GeluForm forms[] = {GeluForm::erf,          GeluForm::tanh,    GeluForm::quick,
                              GeluForm::relu_squared, GeluForm::softcap, GeluForm::xielu};
float cap_of(GeluForm form) { return form == GeluForm::softcap ? 3.0f : 0; }

// Apertus's begin near these; its eps is as small that min(x, eps) would show nowhere.
struct Four {
  float alpha_p = 0, alpha_n = 0, beta = 0, eps = 0;
};
Four four_of(GeluForm form) { return form == GeluForm::xielu ? Four{0.7f, 1.4f, 0.5f, -0.125f} : Four{}; }

enum class Place { apart, over_x, over_up };

// Everything that one case needs, so that backends start from the same bytes.
struct Case {
  Tensor<2> x, up = {}, y;
  GeluForm form = GeluForm::erf;
  Place place = Place::apart;
  bool steps = true;  // xielu has an eps below 0, and so a step at 0

  Gelu<Host> op() {
    View<2> to = result();
    const Four four = four_of(form);
    return {.x = x,
            .up = up,
            .y = to,
            .form = form,
            .cap = cap_of(form),
            .alpha_p = four.alpha_p,
            .alpha_n = four.alpha_n,
            .beta = four.beta,
            .eps = steps ? four.eps : 0};
  }
  Tensor<2>& result() { return place == Place::apart ? y : place == Place::over_x ? x : up; }
  const Tensor<2>& result() const { return const_cast<Case*>(this)->result(); }
  Case unrounded() const { return {x.widened(), up.widened(), y.widened(), form, place, steps}; }
};

// Every view has rows of its own.
Case make(DType type, GeluForm form, index rows, index dim, std::size_t layout, bool with_up, Rng& rng) {
  const auto of = [&](std::size_t i) { return layouts[(layout + i) % 3]; };
  Case c{.x = {type, {rows, dim}, of(0)}, .y = {type, {rows, dim}, of(1)}, .form = form};
  c.x.uniform(rng, -9, 9);
  if (with_up) c.up = Tensor<2>(type, {rows, dim}, of(2)).uniform(rng);
  c.y.poison();
  return c;
}

// In eps, relative to the result. erf: the tail is off by 3 (exp), x^2/2 (its exponent), 6.1 (simd/normal_cdf.hpp) and
// 1 (their product), of which the other side sees what the tail is of it, and rounds its own difference. tanh and
// quick: a sigmoid of z = 2 u, damped by 1 - sigmoid(z): 3 for exp, |z| for each rounding of z: constants, products and
// the sum, of whose two terms the cube is rounded three times; then its sum and its quotient. softcap: 5 for the
// quotient of OpenCL, 6 for tanh (which damps what its argument is off by), the product. Then each: the products with x
// and with up, and what is expected is rounded.
double relative_bound(GeluForm form, double x) {
  if (form == GeluForm::relu_squared) return 3;
  if (form == GeluForm::softcap) return 5 + 6 + 1 + 3;
  if (form == GeluForm::erf) {
    const double tail = std::erfc(std::abs(x) * std::sqrt(0.5)) / 2, off = 10.1 + x * x / 2;
    return (x < 0 ? off : off * tail / (1 - tail) + 1) + 3;
  }
  const double cube = 0.044715 * x * x, of_sum = 3 * cube / (1 + cube);
  const double z = form == GeluForm::tanh ? 1.5957691216057308 * x * (1 + cube) : 1.702 * x;
  const double roundings = form == GeluForm::tanh ? 4 + of_sum : 2;
  const double damping = 1 / (1 + std::exp(std::min(z, 700.0)));
  return (3 + roundings * std::abs(z)) * damping + 2 + 3;
}

// xielu, in eps, of its terms: they have different signs where x < 0. The exponential less 1 is off by 6 for tanh, of
// which its argument damps what the quotient adds, 1 for 1 - t and 5 for the quotient of OpenCL, and by two products;
// the slope and x are each rounded once, and so is their product.
double xielu_bound(double x) {
  const Four f = four_of(GeluForm::xielu);
  if (!std::isfinite(x)) return 0;
  if (x > 0) return 4 * (f.alpha_p * x + f.beta) * x + 3 * (f.alpha_p * x + f.beta) * x;
  const double power = f.alpha_n * std::abs(std::expm1(std::min<double>(x, f.eps)));
  return (6 + 1 + 5 + 2 + 2) * power + 5 * std::abs((f.beta - f.alpha_n) * x);
}

// Where exp is subnormal its error is absolute: 1.5 steps of 2^-149, and half a step for the quotient. So is that of a
// product which is subnormal.
double scale_of(const Case& c, double expected, index k) {
  const double x = c.x.get(k), up = c.up.present() ? c.up.get(k) : 1;
  const bool mixes = c.form == GeluForm::xielu;
  const double relative = mixes           ? xielu_bound(x) * std::abs(up)
                          : expected == 0 ? 0
                                          : relative_bound(c.form, x) * std::abs(expected);
  return relative + std::abs(up) * ((x < -10 ? std::abs(x) * 0x1p-148 : 0) + 0x1p-150) / 0x1p-24;
}

void compare(const Case& start) {
  std::vector<double> scale;
  against_the_reference(start, [&](const Case& expected, const Case& got) {
    const Tensor<2>& e = expected.result();
    for (index k = static_cast<index>(scale.size()); k < e.size(); ++k) scale.push_back(scale_of(start, e.get(k), k));
    expect_close(got.result(), e, 1, [&](index k) { return scale[k]; });
    EXPECT_TRUE(got.x.gaps_untouched() && got.up.gaps_untouched() && got.y.gaps_untouched());
  });
}

TEST(gelu, sweep) {
  Rng rng(1);
  for (GeluForm form : forms)
    for (DType type : float_types)
      for (index dim : sizes)
        for (bool with_up : {false, true})
          for (Place place : {Place::apart, Place::over_x, Place::over_up}) {
            if (place == Place::over_up && !with_up) continue;
            const index rows = 1 + dim % 3;
            Case c = make(type, form, rows, dim, static_cast<std::size_t>(dim) + (with_up ? 1 : 0), with_up, rng);
            c.place = place;
            ASSERT_NO_FATAL_FAILURE(compare(c));
          }
  ASSERT_NO_FATAL_FAILURE(compare(make(DType::f32, GeluForm::erf, 0, 17, 0, true, rng)));
}

TEST(gelu, threads_share_the_work) {
  Rng rng(2);
  for (const auto& [rows, dim] : rows_around_the_grain())
    ASSERT_NO_FATAL_FAILURE(compare(make(DType::f16, GeluForm::quick, rows, dim, 1, rows == 2, rng)));
}

// Floats between 2^-20 and 64 on both sides: the polynomials hold over the whole line.
TEST(gelu, the_whole_line) {
  std::vector<float> line;
  for (std::uint32_t bits = 0x35800000; bits < 0x42800000; bits += 4096 * 5)
    for (std::uint32_t sign : {0u, 0x80000000u}) line.push_back(std::bit_cast<float>(bits | sign));
  for (GeluForm form : forms) {
    const index n = static_cast<index>(line.size());
    Case c{.x = {DType::f32, {1, n}}, .y = {DType::f32, {1, n}}, .form = form};
    for (index k = 0; k < n; ++k) c.x.set(k, line[k]);
    c.y.poison();
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

// Every 16-bit number: a form that is rounded to its type otherwise than once shows here.
TEST(gelu, every_16_bit_number) {
  std::vector<std::uint16_t> bits(65536);
  for (index k = 0; k < 65536; ++k) bits[k] = static_cast<std::uint16_t>(k);
  for (GeluForm form : forms)
    for (DType type : {DType::f16, DType::bf16}) {
      Case c{.x = {type, {2, 32768}}, .y = {type, {2, 32768}}, .form = form};
      for (index k = 0; k < 65536; ++k) {
        const double value = load_element(bits.data(), type, k);
        c.x.set(k, std::isfinite(value) ? value : 1);
      }
      c.y.poison();
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// Ends, the signs of zeros, and squares that leave f32 where their products do not.
TEST(gelu, extremes) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const double values[] = {0,  1e5, -1e5, inf, nan, 1e30, -inf, -0.0, -1e30, 3.4e38, -20,
                           20, -15, -0.0, 0,   2,   2,    2,    2,    1e30,  1e-25};
  const double ups[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, inf, inf, nan, 0, -0.0, 1e-30, 1e30};
  constexpr index n = std::size(values);
  static_assert(std::size(ups) == n);
  for (GeluForm form : forms)
    for (bool with_up : {false, true}) {
      Case start{.x = {DType::f32, {1, n}}, .y = {DType::f32, {1, n}}, .form = form};
      if (with_up) start.up = start.x;
      for (index k = 0; k < n; ++k) start.x.set(k, values[k]);
      for (index k = 0; k < n && with_up; ++k) start.up.set(k, ups[k]);
      start.y.poison();
      against_the_reference(start, [&](const Case& expected, const Case& got) {
        for (index k = 0; k < n; ++k) {
          const double y = got.y.get(k), e = expected.y.get(k);
          SCOPED_TRACE(describe("x", values[k], "up", with_up ? ups[k] : 1, "expected", e));
          if (std::isnan(e)) {
            EXPECT_TRUE(std::isnan(y));
            continue;
          }
          const bool loses_sign = e == 0 && form == GeluForm::softcap;  // tanh's of 0
          EXPECT_TRUE(loses_sign || std::signbit(y) == std::signbit(e));
          const bool is_x = values[k] >= 20 && form <= GeluForm::quick;
          if (is_x || e == 0 || std::isinf(e))
            EXPECT_EQ(y, e);
          else
            EXPECT_NEAR(y, e, std::abs(e) * 0x1p-15);
        }
        const bool squares = form == GeluForm::relu_squared, caps = form == GeluForm::softcap;
        // The ends of (alpha_p x + beta) x and of (beta - alpha_n) x, whose factor is negative.
        if (form == GeluForm::xielu) {
          EXPECT_EQ(got.y.get(3), inf);
          EXPECT_EQ(got.y.get(6), inf);
          EXPECT_TRUE(std::isnan(got.y.get(4)));
          return;
        }
        EXPECT_EQ(got.y.get(1), squares ? 1e10 : caps ? cap_of(form) : 1e5);
        EXPECT_EQ(got.y.get(3), caps ? cap_of(form) : inf);
        EXPECT_TRUE(std::isnan(got.y.get(4)));
        if (squares || caps)
          EXPECT_EQ(got.y.get(6), squares ? 0 : -cap_of(form));
        else
          EXPECT_TRUE(std::isnan(got.y.get(6)));
        EXPECT_EQ(std::isnan(got.y.get(14)), with_up);
        EXPECT_EQ(std::isinf(got.y.get(15)), with_up);
      });
    }
}

TEST(gelu, agrees_with_onnx) {
  INLAY_NEEDS_DATA("onnx_node/LICENSE");
  struct Node {
    const char* name;
    GeluForm form;
  };
  for (const Node& node : {Node{"test_gelu_default_1", GeluForm::erf}, Node{"test_gelu_default_2", GeluForm::erf},
                           Node{"test_gelu_tanh_1", GeluForm::tanh}, Node{"test_gelu_tanh_2", GeluForm::tanh}}) {
    const OnnxTensor x = onnx_tensor(node.name, "input_0"), expected = onnx_tensor(node.name, "output_0");
    const std::array<index, 2> shape{1, x.size()};
    on_every_backend([&](const std::string&, auto run) {
      Tensor<2> y(DType::f32, shape);
      ASSERT_TRUE(ok(run(Gelu<Host>{.x = x.view<2>(shape), .y = y, .form = node.form})));
      // 1 + erf in f32 loses what it cancels: 2 eps |x| on their side.
      for (index k = 0; k < y.size(); ++k)
        ASSERT_LE(std::abs(y.get(k) - expected.get(k)), 16 * 0x1p-24 * std::abs(x.get(k))) << k;
    });
  }
}

TEST(gelu, subnormals) {
  Rng rng(6);
  for (GeluForm form : forms)
    for (DType type : float_types)
      for (index dim : subnormal_sizes) {
        Case c = make(type, form, 2, dim, 0, true, rng);
        subnormals(c.x, rng, dim % 2);
        c.steps = false;  // a number that is flushed would be on the other side
        with_and_without_flushing(c, [&](const Case& expected, const Case& got, double lost) {
          // An operand and two products, by factors of at most 1.
          const auto scale = [&](index k) { return scale_of(c, expected.y.get(k), k); };
          expect_close(got.y, expected.y, 1, scale, {.lost = 3 * lost});
        });
      }
}

// Far out, where the exponential is subnormal: flushed or not, it is off by a subnormal number at most.
TEST(gelu, tails_that_are_flushed) {
  Rng rng(7);
  for (GeluForm form : forms) {
    Case c = make(DType::f32, form, 2, 129, 0, true, rng);
    const double begin = form == GeluForm::erf ? 13 : form == GeluForm::tanh ? 10 : 50;
    if (form > GeluForm::quick) break;  // they have no tail
    c.x.uniform(rng, -begin * 1.15, -begin);
    with_and_without_flushing(c, [&](const Case& expected, const Case& got, double lost) {
      const auto scale = [&](index k) { return scale_of(c, expected.y.get(k), k); };
      expect_close(got.y, expected.y, 1, scale, {.lost = 60 * lost});
    });
  }
}

TEST(gelu, refuses_what_the_contract_does_not_cover) {
  Tensor<2> x(DType::f32, {3, 8}), y(DType::f32, {3, 8}), other(DType::f32, {2, 8}), half(DType::f16, {3, 8});
  const Refused refused(Gelu<Host>{.x = x, .y = y});
  refused([&](auto& op) { op.up = other; }, {"up", "[2, 8]", "[3, 8]"});
  refused([&](auto& op) { op.y = half; }, {"y", "f16", "f32"});
  refused([&](auto& op) { op.up = half; }, {"up", "f16", "f32", "x"});
  refused([&](auto& op) { op.y = other; }, {"y", "[2, 8]", "[3, 8]"});
  Tensor<2> integers(DType::i8, {3, 8}), wide(DType::f32, {3, 9});
  refused([&](auto& op) { op.x = integers, op.y = integers; }, {"x", "i8"});
  const auto columns = [&](index first) { return wide.view().slice(1, first, 8); };
  refused([&](auto& op) { op.x = columns(0), op.y = columns(1); }, {"y", "overlaps", "x"});
  refused([&](auto& op) { op.up = columns(0), op.y = columns(1); }, {"y", "overlaps", "up"});
  refused([&](auto& op) { op.form = static_cast<GeluForm>(6); },
          {"form", "6", "erf, tanh, quick, relu_squared, softcap or xielu"});
  refused([&](auto& op) { op.alpha_p = 1; }, {"alpha_p", "1", "xielu"});
  refused([&](auto& op) { op.alpha_n = 1; }, {"alpha_n", "1", "xielu"});
  refused([&](auto& op) { op.beta = 1; }, {"beta", "1", "xielu"});
  refused([&](auto& op) { op.eps = -1; }, {"eps", "-1", "xielu"});
  refused([&](auto& op) { op.form = GeluForm::xielu, op.eps = 0.5f; }, {"eps", "0.5", "0 or less"});
  refused([&](auto& op) { op.form = GeluForm::xielu, op.beta = std::nanf(""); }, {"beta", "nan"});
  refused([&](auto& op) { op.form = GeluForm::softcap; }, {"cap", "0", "positive"});
  refused([&](auto& op) { op.form = GeluForm::softcap, op.cap = -1; }, {"cap", "-1", "positive"});
  refused([&](auto& op) { op.cap = 1; }, {"cap", "1", "softcap"});
  refused([&](auto& op) { op.cap = std::numeric_limits<float>::infinity(); }, {"cap", "inf"});
}

}  // namespace
}  // namespace inlay::test
