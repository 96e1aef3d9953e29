// linear_int8 against the reference: sums of integers, and every way from x to them and from them to y.
#include <Eigen/Core>

#include "tests/linear_int8/case.hpp"

namespace inlay::test {
INLAY_RUNS_OF(LinearInt8);

namespace {

using linear_int8::panel;
constexpr index max_rows = cpu::int8_tile_rows;

// Every tile of tokens, with one panel, a pair, and a panel left over.
TEST(linear_int8, every_tile_of_tokens) {
  Rng rng(1);
  for (DType x : {DType::i8, DType::u8})
    for (index tokens = 0; tokens <= 2 * max_rows + 1; ++tokens)
      for (index n : {index{5}, panel, panel + 1, 2 * panel, 3 * panel + 1}) {
        const index k = 4 * (tokens % 5) + n % 4 + 1;
        Case c = make(x, DType::i32, tokens, n, k, layouts[static_cast<std::size_t>(tokens + n) % 3], rng);
        if (tokens % 2) c.x_zero = zero_points(x, tokens % 3 ? 1 : tokens, rng);
        if (n % 2) c.weight_zero = zero_points(DType::i8, tokens % 4 ? 1 : n, rng);
        ASSERT_NO_FATAL_FAILURE(compare_exactly(c));
      }
}

// k around the groups of four, the groups that are summed side by side, and the chunks that are quantized at a time.
TEST(linear_int8, every_remainder_of_k) {
  Rng rng(2);
  std::vector<index> depths = {63, 64, 65, 66, 67, 68, 127, 128, 129, 191, 193, 257, 769};
  for (index k = 0; k <= 36; ++k) depths.push_back(k);
  for (DType x : {DType::i8, DType::u8})
    for (index k : depths)
      for (index tokens : {1, 3, 13}) {
        Case c = make(x, DType::i32, tokens, panel + 2, k, layouts[static_cast<std::size_t>(tokens + k) % 3], rng);
        c.x_zero = zero_points(x, tokens, rng);
        c.weight_zero = zero_points(DType::i8, panel + 2, rng);
        ASSERT_NO_FATAL_FAILURE(compare_exactly(c));
      }
}

// More pairs of panels than there are tasks for three threads, and one fewer; an odd panel at the end.
TEST(linear_int8, channels_are_cut_for_threads) {
  Rng rng(3);
  constexpr index tasks = 3 * Parallel::pieces_a_thread;
  for (index pairs : {tasks - 1, tasks, tasks + 1, 2 * tasks + 3})
    for (index tokens : {1, 2, 14})
      for (index n : {2 * panel * pairs, 2 * panel * pairs - panel - 3})
        ASSERT_NO_FATAL_FAILURE(compare_exactly(make(DType::i8, DType::i32, tokens, n, 7, layouts[1], rng)));
}

// A thread that is kept off its core holds one task (docs/threads.md): where a pair of panels is more work than a task
// need be, each is a task of its own.
TEST(linear_int8, long_calls_are_cut_into_many_tasks) {
  Rng rng(31);
  constexpr index width = 2, pairs = Parallel::pieces_a_thread * width + 5;
  constexpr index tokens = 16, k = 2000;
  ASSERT_GT(2.0 * tokens * k * 2 * panel, 100e9 * Parallel::longest_piece);
  index most = 0;
  const Parallel counting{
      .context = &most, .width = width, .run = [](void* context, index n, void (*task)(void*, index), void* data) {
        auto& so_far = *static_cast<index*>(context);
        so_far = std::max(so_far, n);
        for (index i = 0; i < n; ++i) task(data, i);
      }};
  for (Isa isa : available_isas()) {
    Case c = make(DType::i8, DType::i32, tokens, 2 * panel * pairs, k, {}, rng);
    Cpu cpu(isa, counting);
    most = 0;
    ASSERT_TRUE(ok(run_with_scratch(cpu, c.op())));
    EXPECT_GE(most, pairs) << name(isa);
  }
}

// The largest factors over the longest k: no 16-bit sum saturates, and int32 is used to its last bits. Few tokens sum k
// in several chains, four and more in one, which wraps around on its way where x is stored with an offset.
TEST(linear_int8, extremes_over_the_longest_k) {
  Rng rng(4);
  for (DType x : {DType::i8, DType::u8})
    for (bool x_zero : {false, true})
      for (bool weight_zero : {false, true})
        for (bool low_x : {false, true})
          for (bool low_w : {false, true}) {
            const index k = linear_int8::longest_k(x, x_zero, weight_zero), tokens = low_x == low_w ? 4 : 5, n = 1;
            Case c = make(x, DType::i32, tokens, n, k, {}, rng);
            SCOPED_TRACE(describe(c.op()));
            double a = low_x ? least(x) : most(x), b = low_w ? -128 : 127;
            c.x.fill(a);
            c.w.fill(b);
            c.pack();
            if (x_zero) {
              c.x_zero = Tensor<1>(x, {1}).fill(low_x ? most(x) : least(x));
              a -= c.x_zero.get(0);
            }
            if (weight_zero) {
              c.weight_zero = Tensor<1>(DType::i8, {1}).fill(low_w ? 127 : -128);
              b -= c.weight_zero.get(0);
            }
            on_every_backend([&](const std::string&, auto run) {
              Case got = c;
              ASSERT_TRUE(ok(run(got.op())));
              for (index i = 0; i < tokens * n; ++i) ASSERT_EQ(got.y.get(i), a * b * static_cast<double>(k));
            });
          }
}

// Any type of x and y, scales and zero points of either extent or absent, in small shapes.
TEST(linear_int8, every_combination_of_options) {
  Rng rng(5);
  RoundedIntegers integers;
  const auto coin = [&] { return rng() % 2 == 0; };
  for (int turn = 0; turn < 600; ++turn) {
    const DType x = std::array{DType::i8, DType::u8, DType::f32, DType::f16, DType::bf16}[rng() % 5];
    const bool float_x = floats.contains(x), is_static = !float_x || coin();
    const DType y = std::array{DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8}[rng() % 5];
    const index tokens = 1 + static_cast<index>(rng() % 14), n = 1 + static_cast<index>(rng() % 40);
    const index k = 1 + static_cast<index>(rng() % 140);
    Case c = make(x, y, tokens, n, k, layouts[rng() % 3], rng);
    if (float_x) c.x.uniform(rng, coin() ? -1 : -0.25, 1.4);
    if (is_static) c.x_scale = ones_about(coin() ? 1 : tokens, 0.01, rng);
    if (is_static && coin()) c.x_zero = zero_points(x == DType::u8 ? x : DType::i8, coin() ? 1 : tokens, rng);
    c.asymmetric = !is_static && coin();
    c.weight_scale = ones_about(coin() ? 1 : n, 0.01, rng);
    if (coin()) c.weight_zero = zero_points(DType::i8, coin() ? 1 : n, rng);
    if (coin()) c.bias = Tensor<1>(float_types[rng() % 3], {n}, layouts[2]).uniform(rng, -10, 10);
    if (c.integral()) {
      // The outputs spread over the integers, and a few beyond them.
      const double spread =
          std::sqrt(static_cast<double>(k)) * (c.weight_zero.present() || c.x_zero.present() ? 1 : 0.4);
      c.y_scale = ones_about(1, spread / 60, rng);
      if (coin() || y == DType::u8) c.y_zero = zero_points(y, 1, rng);
    }
    ASSERT_NO_FATAL_FAILURE(compare(c, integers)) << turn;
  }
}

TEST(linear_int8, batching_changes_no_bit) {
  Rng rng(6);
  constexpr index tokens = 2 * max_rows + 5;
  for (DType x : float_types)
    for (bool asymmetric : {false, true}) {
      Case all = make(x, DType::f32, tokens, 40, 130, {}, rng);
      all.weight_scale = ones_about(40, 0.01, rng);
      all.asymmetric = asymmetric;
      on_every_backend([&](const std::string&, auto run) {
        Case got = all, single = all;
        ASSERT_TRUE(ok(run(got.op())));
        for (index t = 0; t < tokens; ++t) {
          LinearInt8<Host> op = single.op();
          op.x = op.x.slice(0, t, 1);
          op.y = op.y.slice(0, t, 1);
          ASSERT_TRUE(ok(run(op)));
        }
        expect_equal(got.y, single.y);
      });
    }
}

TEST(linear_int8, reference_agrees_with_eigen) {
  Rng rng(7);
  Case c = make(DType::i8, DType::i32, 6, 37, 101, {}, rng);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  using Matrix = Eigen::Matrix<std::int8_t, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::MatrixXi expected = Eigen::Map<Matrix>(c.x.data<std::int8_t>(), 6, 101).cast<int>() *
                                   Eigen::Map<Matrix>(c.w.data<std::int8_t>(), 37, 101).cast<int>().transpose();
  for (int i = 0; i < 6 * 37; ++i) EXPECT_EQ(c.y.get(i), expected(i / 37, i % 37));
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
  c.pack();
  c.x_zero = Tensor<1>(DType::u8, {1}).fill(12);
  c.weight_zero = Tensor<1>(DType::i8, {1}).fill(-128);
  on_every_backend([&](const std::string&, auto run) {
    Case got = c;
    ASSERT_TRUE(ok(run(got.op())));
    for (int i = 0; i < 8; ++i) EXPECT_EQ(got.y.get(i), expected[i]) << i;
  });
}

}  // namespace
}  // namespace inlay::test
