// The packed weight by hand, the bounds of k, and what the contract refuses.
#include "tests/linear_int8/case.hpp"
#include "tests/support/refused.hpp"

namespace inlay::test {
namespace {

// Panels of 16 channels by groups of 4 inputs, as the contract draws them: every byte, and the sums.
TEST(linear_int8, packed_form_by_hand) {
  using Extents = std::array<index, 3>;
  EXPECT_EQ(linear_int8::packed_extents(16, 4), (Extents{1, 1, 64}));
  EXPECT_EQ(linear_int8::packed_extents(17, 5), (Extents{2, 2, 64}));
  EXPECT_EQ(linear_int8::packed_extents(33, 0), (Extents{3, 0, 64}));
  for (DType type : {DType::i8, DType::u8}) {
    Tensor<2> w(type, {18, 6}, layouts[1]);  // channel c, input k: 6 c + k - 50, or 128 more
    for (index i = 0; i < w.size(); ++i) w.set(i, static_cast<double>(i - 50 + (type == DType::u8 ? 128 : 0)));
    Tensor<3> packed(DType::i8, {2, 2, 64});
    Tensor<1> sums(DType::i32, {18});
    packed.fill(-1);
    ASSERT_TRUE(ok(pack_linear_int8(w, packed, sums)));
    for (index i = 0; i < packed.size(); ++i) {
      const index channel = i / 128 * 16 + i % 64 / 4, input = i / 64 % 2 * 4 + i % 4;
      const double expected = channel < 18 && input < 6 ? static_cast<double>(6 * channel + input - 50) : 0;
      ASSERT_EQ(packed.get(i), expected) << i;
    }
    for (index c = 0; c < 18; ++c) ASSERT_EQ(sums.get(c), static_cast<double>(36 * c + 15 - 300)) << c;
  }
}

// Largest k with k * 128 * 128, k * 255 * 128 and k * 255 * 255 below 2^31.
TEST(linear_int8, longest_k_by_hand) {
  using linear_int8::longest_k;
  EXPECT_EQ(longest_k(DType::i8, false, false), 131071);
  EXPECT_EQ(longest_k(DType::i8, true, false), 65793);
  EXPECT_EQ(longest_k(DType::i8, false, true), 65793);
  EXPECT_EQ(longest_k(DType::i8, true, true), 33025);
  EXPECT_EQ(longest_k(DType::u8, false, false), 65793);
  EXPECT_EQ(longest_k(DType::u8, true, false), 65793);
  EXPECT_EQ(longest_k(DType::u8, false, true), 33025);
  EXPECT_EQ(longest_k(DType::f32, false, false), 131071);
}

// pack takes u8 weights as i8 and their zero points less 128.
TEST(linear_int8, unsigned_weights) {
  Rng rng(31);
  const index tokens = 3, n = 18, k = 33;
  Case c = make(DType::u8, DType::i32, tokens, n, k, {}, rng);
  c.w = Tensor<2>(DType::u8, {n, k}, layouts[1]);
  fill_integers(c.w, rng);
  c.pack();
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

TEST(linear_int8, refuses_what_the_contract_does_not_cover) {
  Rng rng(32);
  Case c = make(DType::f32, DType::f32, 4, 20, 10, {}, rng);
  c.weight_scale = ones_about(20, 1, rng);
  Tensor<1> three(DType::f32, {3}), zero(DType::i8, {1});
  const Refused refused(c.op());
  refused([&](auto& op) { op.weight.extents[0] = 1; }, {"weight", "[1, 3, 64]", "[2, 3, 64]"});
  refused([&](auto& op) { op.weight_scale = three; }, {"weight_scale", "3", "20"});
  refused([&](auto& op) { op.weight_scale = {}; }, {"weight_scale", "missing"});
  refused([&](auto& op) { op.x_zero = zero; }, {"x_zero", "asymmetric"});
  refused([&](auto& op) { op.shadow_outliers = true; }, {"shadow_outliers", "x_scale"});
  refused([&](auto& op) { op.x_scale = three; }, {"x_scale", "3", "4"});
  refused([&](auto& op) { op.y_scale = three; }, {"y_scale", "i8"});
  refused([&](auto& op) { op.y.dtype = DType::i32; }, {"x", "i32"});
  Case integers = make(DType::i8, DType::f32, 4, 20, 10, {}, rng);
  integers.weight_scale = ones_about(20, 1, rng);
  expect_refused(integers.op(), {"x_scale", "missing"});
  Case raw = make(DType::i8, DType::i32, 1, 1, 131072, {}, rng);
  expect_refused(raw.op(), {"x", "131072", "131071"});
  raw = make(DType::i8, DType::i32, 1, 1, 131071, {}, rng);
  EXPECT_TRUE(ok(check(raw.op())));
  raw.x_zero = zero;
  expect_refused(raw.op(), {"x", "131071", "65793"});
  raw.weight_zero = zero;
  expect_refused(raw.op(), {"x", "131071", "33025"});
  Case dynamic = make(DType::f32, DType::f32, 1, 1, 65794, {}, rng);
  dynamic.weight_scale = ones_about(1, 1, rng);
  EXPECT_TRUE(ok(check(dynamic.op())));
  dynamic.asymmetric = true;
  expect_refused(dynamic.op(), {"x", "65794", "65793"});
  Tensor<2> w(DType::i32, {4, 4});
  EXPECT_FALSE(pack_linear_int8(w, c.weight, c.weight_sum).ok());
}

}  // namespace
}  // namespace inlay::test
