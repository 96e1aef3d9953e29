#include <inlay/weights/linear_int8_pack.hpp>

#include <Eigen/Core>

#include <optional>

#include <inlay/ops/quantize.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

struct Case {
  Tensor<2> x, w, y;
  Tensor<3> weight;
  Tensor<1> weight_sum;
  Tensor<1> x_scale = {}, x_zero = {}, weight_scale = {}, weight_zero = {}, bias = {}, y_scale = {}, y_zero = {};
  bool asymmetric = false, shadow_outliers = false;

  LinearInt8<Host> op() {
    return {.x = x,
            .x_scale = x_scale,
            .x_zero = x_zero,
            .weight = weight,
            .weight_sum = weight_sum,
            .weight_scale = weight_scale,
            .weight_zero = weight_zero,
            .bias = bias,
            .y = y,
            .y_scale = y_scale,
            .y_zero = y_zero,
            .asymmetric = asymmetric,
            .shadow_outliers = shadow_outliers};
  }
};

void fill_integers(Tensor<2>& tensor, Rng& rng) {
  tensor.integers(rng, tensor.dtype() == DType::u8 ? 0 : -128, tensor.dtype() == DType::u8 ? 255 : 127);
}

Tensor<1> ones_about(index count, double about, Rng& rng) {
  return Tensor<1>(DType::f32, {count}).uniform(rng, 0.5 * about, 1.5 * about);
}
Tensor<1> zero_points(DType type, index count, Rng& rng) {
  return Tensor<1>(type, {count}).integers(rng, type == DType::u8 ? 0 : -128, type == DType::u8 ? 255 : 127);
}

Case make(DType x, DType y, index tokens, index n, index k, Layout layout, Rng& rng) {
  Case c{.x = {x, {tokens, k}, layout},
         .w = {DType::i8, {n, k}, layout},
         .y = {y, {tokens, n}, layout},
         .weight = {DType::i8, linear_int8::packed_extents(n, k)},
         .weight_sum = {DType::i32, {n}}};
  if (floats.contains(x))
    c.x.uniform(rng, -1, 1);
  else
    fill_integers(c.x, rng);
  fill_integers(c.w, rng);
  EXPECT_TRUE(ok(pack_linear_int8(c.w, c.weight, c.weight_sum)));
  c.y.poison();
  return c;
}

// The integers are exact. acc to f32, two products, one sum, and a division where y is an integer
// are five roundings of numbers no larger than the scaled sum, the shadow's terms and the bias.
void compare(const Case& start, double shadow_terms = 0) {
  Case expected = start;
  SCOPED_TRACE(describe(expected.op()));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  std::optional<Tensor<2>> first;
  on_every_backend([&](const std::string& label, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    EXPECT_TRUE(got.y.gaps_untouched());
    if (got.y.dtype() == DType::i32) {
      expect_equal(got.y, expected.y);
    } else if (got.y_scale.present()) {
      // A value that lies between two integers to within its roundings may go either way.
      for (index i = 0; i < got.y.size(); ++i) ASSERT_LE(std::abs(got.y.get(i) - expected.y.get(i)), 1) << i;
    } else {
      const index n = got.y.extents()[1];
      expect_close(got.y, expected.y, 5 + shadow_terms, [&](index i) {
        const double bias = got.bias.present() ? std::abs(got.bias.get(i % n)) : 0;
        return std::abs(expected.y.get(i)) + 2 * bias;
      });
    }
    // No fused products: levels, threads and batching of the CPU agree to the bit.
    if (!label.starts_with("cpu")) return;
    if (!first) first = got.y;
    expect_equal(got.y, *first);
  });
}

TEST(linear_int8, integers_of_all_sizes_are_exact) {
  Rng rng(1);
  for (DType x : {DType::i8, DType::u8})
    for (index k : {0, 1, 3, 4, 5, 17, 64, 129, 769})
      for (const auto& [tokens, n] :
           {std::pair<index, index>{0, 5}, {1, 1}, {2, 15}, {3, 16}, {5, 17}, {13, 33}, {27, 49}}) {
        Case c = make(x, DType::i32, tokens, n, k, layouts[static_cast<std::size_t>(tokens + k) % 3], rng);
        if (k % 2) c.x_zero = zero_points(x, tokens % 2 ? 1 : tokens, rng);
        if (k % 3) c.weight_zero = zero_points(DType::i8, n % 2 ? 1 : n, rng);
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

// The largest factors over the longest k: no 16-bit sum saturates, and int32 is used to its last bits.
TEST(linear_int8, extremes_over_the_longest_k) {
  Rng rng(2);
  for (DType x : {DType::i8, DType::u8})
    for (bool zeros : {false, true})
      for (int low : {0, 1}) {
        const index k = linear_int8::longest_k(x, zeros, zeros), tokens = 2, n = 3;
        SCOPED_TRACE(low);
        Case c = make(x, DType::i32, tokens, n, k, {}, rng);
        c.x.fill(x == DType::i8 ? (low ? -128 : 127) : (low && zeros ? 0 : 255));
        c.w.fill(low && !zeros && x == DType::i8 ? -128 : low ? -128 : 127);
        ASSERT_TRUE(ok(pack_linear_int8(c.w, c.weight, c.weight_sum)));
        double a = c.x.get(0), b = c.w.get(0);
        if (zeros) {
          c.x_zero = Tensor<1>(x, {1}).fill(x == DType::i8 ? (low ? 127 : -128) : (low ? 255 : 0));
          c.weight_zero = Tensor<1>(DType::i8, {1}).fill(low ? 127 : -128);
          a -= c.x_zero.get(0);
          b -= c.weight_zero.get(0);
        }
        on_every_backend([&](const std::string&, auto run) {
          Case got = c;
          ASSERT_TRUE(ok(run(got.op())));
          for (index i = 0; i < tokens * n; ++i) ASSERT_EQ(got.y.get(i), a * b * static_cast<double>(k));
        });
      }
}

TEST(linear_int8, static_activations) {
  Rng rng(3);
  for (DType x : {DType::i8, DType::u8, DType::f32, DType::f16, DType::bf16})
    for (DType y : {DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8})
      for (const auto& [tokens, n, k] : {std::array<index, 3>{1, 33, 64}, {5, 16, 111}, {14, 31, 65}}) {
        Case c = make(x, y, tokens, n, k, layouts[static_cast<std::size_t>(tokens) % 3], rng);
        const bool per_token = n % 2;
        c.x_scale = ones_about(per_token ? tokens : 1, 0.01, rng);
        if (k % 2) c.x_zero = zero_points(x == DType::u8 ? x : DType::i8, per_token ? 1 : tokens, rng);
        c.weight_scale = ones_about(k % 2 ? n : 1, 0.01, rng);
        if (tokens > 1) c.bias = Tensor<1>(k % 2 ? DType::f32 : DType::f16, {n}).uniform(rng);
        if (y == DType::i8 || y == DType::u8) {
          c.y_scale = ones_about(1, 0.5, rng);
          if (k % 2) c.y_zero = zero_points(y, 1, rng);
        }
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

TEST(linear_int8, dynamic_activations) {
  Rng rng(4);
  for (DType x : float_types)
    for (bool asymmetric : {false, true})
      for (index tokens : {1, 2, 4, 11, 13, 24})
        for (index n : {35, 48}) {
          const index k = tokens % 3 == 0 ? 16 : tokens % 3 == 1 ? 65 : 259;
          Case c = make(x, DType::f32, tokens, n, k, layouts[static_cast<std::size_t>(tokens + k) % 3], rng);
          if (asymmetric) c.x.uniform(rng, -0.25, 1);
          c.asymmetric = asymmetric;
          c.weight_scale = ones_about(n, 0.01, rng);
          c.bias = Tensor<1>(x, {n}).uniform(rng);
          ASSERT_NO_FATAL_FAILURE(compare(c));
        }
}

// Each shadow term is a rounded product in a rounded sum; the reference adds them in double.
TEST(linear_int8, shadow_outliers_undo_the_clipping) {
  Rng rng(5);
  for (DType x : float_types)
    for (bool zeros : {false, true})
      for (index k : {5, 64, 193}) {
        const index tokens = 13, n = 21;
        SCOPED_TRACE(describe(x, k));
        Case c = make(x, DType::f32, tokens, n, k, layouts[1], rng);
        // Few outliers, and of a sign with their weights: no cancellation hides an error.
        for (index i = 0; i < c.x.size(); i += 17) c.x.set(i, 40 + static_cast<double>(i % 5));
        c.w.integers(rng, 0, 127);
        ASSERT_TRUE(ok(pack_linear_int8(c.w, c.weight, c.weight_sum)));
        c.x_scale = Tensor<1>(DType::f32, {1}).fill(1.0 / 127);
        if (zeros) c.x_zero = Tensor<1>(DType::i8, {1}).fill(-20);
        if (zeros) c.weight_zero = Tensor<1>(DType::i8, {1}).fill(-7);
        c.weight_scale = ones_about(n, 0.01, rng);
        c.shadow_outliers = true;
        ASSERT_NO_FATAL_FAILURE(compare(c, static_cast<double>(k)));
        // Unclipped activations by hand.
        Reference reference;
        ASSERT_TRUE(ok(run(reference, c.op())));
        for (index o = 0; o < n; ++o) {
          double sum = 0;
          for (index i = 0; i < k; ++i)
            sum += std::nearbyint(static_cast<float>(c.x.get(i)) / c.x_scale.data<float>()[0]) *
                   (c.w.get(o * k + i) - (zeros ? -7 : 0));
          const double expected = sum * c.x_scale.get(0) * c.weight_scale.get(o);
          EXPECT_NEAR(c.y.get(o), expected, 1e-6 * std::abs(expected));
        }
      }
}

TEST(linear_int8, a_token_with_nan_or_inf_gives_nan_and_leaves_the_others) {
  Rng rng(6);
  for (double bad : {std::nan(""), std::numeric_limits<double>::infinity()})
    for (int form : {0, 1, 2}) {
      Case c = make(DType::f32, DType::f32, 3, 17, 40, {}, rng);
      c.weight_scale = ones_about(17, 0.01, rng);
      if (form > 0) c.x_scale = Tensor<1>(DType::f32, {1}).fill(0.001);
      c.shadow_outliers = form == 2;
      c.x.set(45, bad);
      on_every_backend([&](const std::string&, auto run) {
        Case got = c;
        ASSERT_TRUE(ok(run(got.op())));
        for (int i = 0; i < 51; ++i) ASSERT_EQ(std::isnan(got.y.get(i)), i / 17 == 1) << i;
      });
    }
}

TEST(linear_int8, batching_changes_no_bit) {
  Rng rng(7);
  Case all = make(DType::f32, DType::f32, 29, 40, 130, {}, rng);
  all.weight_scale = ones_about(40, 0.01, rng);
  on_every_backend([&](const std::string&, auto run) {
    Case got = all, single = all;
    ASSERT_TRUE(ok(run(got.op())));
    for (index t = 0; t < 29; ++t) {
      LinearInt8<Host> op = single.op();
      op.x = op.x.slice(0, t, 1);
      op.y = op.y.slice(0, t, 1);
      ASSERT_TRUE(ok(run(op)));
    }
    expect_equal(got.y, single.y);
  });
}

TEST(linear_int8, reference_agrees_with_eigen) {
  Rng rng(8);
  Case c = make(DType::i8, DType::i32, 6, 37, 101, {}, rng);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  using Matrix = Eigen::Matrix<std::int8_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::MatrixXi expected = Eigen::Map<Matrix>(c.x.data<std::int8_t>(), 6, 101).cast<int>() *
                                   Eigen::Map<Matrix>(c.w.data<std::int8_t>(), 37, 101).cast<int>().transpose();
  for (int i = 0; i < 6 * 37; ++i) EXPECT_EQ(c.y.get(i), expected(i / 37, i % 37));
}

// One half step of x times |w| and one of w times |x| per product, quantized by the operator quantize.
TEST(linear_int8, stays_near_the_float_layer) {
  Rng rng(9);
  const index tokens = 4, n = 50, k = 300;
  Case c = make(DType::f32, DType::f32, tokens, n, k, {}, rng);
  Tensor<2> w(DType::f32, {n, k});
  w.uniform(rng, -0.1, 0.1);
  c.weight_scale = Tensor<1>(DType::f32, {n});
  on_every_backend([&](const std::string&, auto run) {
    ASSERT_TRUE(ok(run(Quantize<Host>{.x = w, .y = c.w, .row_scale = c.weight_scale})));
    ASSERT_TRUE(ok(pack_linear_int8(c.w, c.weight, c.weight_sum)));
    ASSERT_TRUE(ok(run(c.op())));
    for (index t = 0; t < tokens; ++t)
      for (index o = 0; o < n; ++o) {
        double exact = 0, bound = 1e-5, largest = 0;
        for (index i = 0; i < k; ++i) largest = std::max(largest, std::abs(c.x.get(t * k + i)));
        const double half_x = largest / 254, half_w = c.weight_scale.get(o) / 2;
        for (index i = 0; i < k; ++i) {
          const double a = c.x.get(t * k + i), b = w.get(o * k + i);
          exact += a * b;
          bound += half_x * std::abs(b) + half_w * std::abs(a) + half_x * half_w;
        }
        ASSERT_NEAR(c.y.get(t * n + o), exact, bound);
      }
  });
}

// pack takes u8 weights as i8 and their zero points less 128.
TEST(linear_int8, unsigned_weights) {
  Rng rng(10);
  const index tokens = 3, n = 18, k = 33;
  Case c = make(DType::u8, DType::i32, tokens, n, k, {}, rng);
  c.w = Tensor<2>(DType::u8, {n, k}, layouts[1]);
  fill_integers(c.w, rng);
  ASSERT_TRUE(ok(pack_linear_int8(c.w, c.weight, c.weight_sum)));
  c.x_zero = Tensor<1>(DType::u8, {1}).fill(12);
  c.weight_zero = Tensor<1>(DType::i8, {1}).fill(100 - 128);
  on_every_backend([&](const std::string&, auto run) {
    Case got = c;
    ASSERT_TRUE(ok(run(got.op())));
    for (index t = 0; t < tokens; ++t)
      for (index o = 0; o < n; ++o) {
        double sum = 0;
        for (index i = 0; i < k; ++i) sum += (c.x.get(t * k + i) - 12) * (c.w.get(o * k + i) - 100);
        ASSERT_EQ(got.y.get(t * n + o), sum);
      }
  });
}

// ONNX's node test of MatMulInteger (onnx/onnx, test_matmulinteger).
TEST(linear_int8, onnx_matmul_integer) {
  Case c{.x = {DType::u8, {4, 3}},
         .w = {DType::u8, {2, 3}},
         .y = {DType::i32, {4, 2}},
         .weight = {DType::i8, linear_int8::packed_extents(2, 3)},
         .weight_sum = {DType::i32, {2}}};
  const int x[] = {11, 7, 3, 10, 6, 2, 9, 5, 1, 8, 4, 0}, w[] = {1, 2, 3, 4, 5, 6};
  const int expected[] = {-38, -83, -44, -98, -50, -113, -56, -128};
  for (int i = 0; i < 12; ++i) c.x.set(i, x[i]);
  for (int i = 0; i < 6; ++i) c.w.set(i, w[i]);
  ASSERT_TRUE(ok(pack_linear_int8(c.w, c.weight, c.weight_sum)));
  c.x_zero = Tensor<1>(DType::u8, {1}).fill(12);
  c.weight_zero = Tensor<1>(DType::i8, {1}).fill(-128);
  on_every_backend([&](const std::string&, auto run) {
    Case got = c;
    ASSERT_TRUE(ok(run(got.op())));
    for (int i = 0; i < 8; ++i) EXPECT_EQ(got.y.get(i), expected[i]) << i;
  });
}

TEST(linear_int8, refuses_what_the_contract_does_not_cover) {
  Rng rng(11);
  Case c = make(DType::f32, DType::f32, 4, 20, 10, {}, rng);
  c.weight_scale = ones_about(20, 1, rng);
  Tensor<1> three(DType::f32, {3}), zero(DType::i8, {1});
  ASSERT_TRUE(ok(check(c.op())));
  LinearInt8<Host> op = c.op();
  op.weight.extents[0] = 1;
  expect_refused(op, {"weight", "[1, 3, 64]", "[2, 3, 64]"});
  op = c.op();
  op.weight_scale = three;
  expect_refused(op, {"weight_scale", "3", "20"});
  op = c.op();
  op.weight_scale = {};
  expect_refused(op, {"weight_scale", "missing"});
  op = c.op();
  op.x_zero = zero;
  expect_refused(op, {"x_zero", "asymmetric"});
  op = c.op();
  op.shadow_outliers = true;
  expect_refused(op, {"shadow_outliers", "x_scale"});
  op = c.op();
  op.x_scale = three;
  expect_refused(op, {"x_scale", "3", "4"});
  op = c.op();
  op.y_scale = three;
  expect_refused(op, {"y_scale", "i8"});
  op = c.op();
  op.y.dtype = DType::i32;
  expect_refused(op, {"x", "i32"});
  Case integers = make(DType::i8, DType::f32, 4, 20, 10, {}, rng);
  integers.weight_scale = ones_about(20, 1, rng);
  expect_refused(integers.op(), {"x_scale", "missing"});
  Case raw = make(DType::i8, DType::i32, 1, 1, 131072, {}, rng);
  expect_refused(raw.op(), {"x", "131072", "131071"});
  Tensor<2> w(DType::i32, {4, 4});
  EXPECT_FALSE(pack_linear_int8(w, c.weight, c.weight_sum).ok());
}

}  // namespace
}  // namespace inlay::test
