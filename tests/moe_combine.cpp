#include <inlay/ops/moe_combine.hpp>

#include "cpu_kernels/moe_combine.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/refused.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

struct Case {
  Tensor<2> x, rows, weights, shared = {}, shared_gate = {}, y;
  bool in_place = false;  // y is shared
  bool not_finite = false;

  MoeCombine<Host> op() {
    return {.x = x,
            .rows = rows,
            .weights = weights,
            .shared = shared,
            .shared_gate = shared_gate,
            .y = in_place ? shared : y};
  }
  Case unrounded() const {
    Case wide = *this;
    wide.x = x.widened(), wide.shared = shared.present() ? shared.widened() : shared, wide.y = y.widened();
    wide.in_place = false;
    return wide;
  }
  const Tensor<2>& result() const { return in_place ? shared : y; }
  index top_k() const { return rows.extents()[1]; }
};

// The magnitudes that an element adds up.
double terms_of(const Case& c, index k) {
  const index dim = c.y.extents()[1], t = k / dim, i = k % dim;
  double sum = c.shared.present() ? std::abs(c.shared.get(k)) : 0;
  for (index j = 0; j < c.top_k(); ++j)
    sum += std::abs(c.weights.get(t * c.top_k() + j) *
                    c.x.get(static_cast<index>(c.rows.get(t * c.top_k() + j)) * dim + i));
  return sum;
}

// A sum of top_k products, and of shared, is rounded with each of them, to half an ulp of no more than all terms
// together, and where products are rounded for themselves to as much of each term again. sigmoid is off by 4 ulps at
// most.
void compare(const Case& start) {
  const double ulps = static_cast<double>(start.top_k()) + (start.shared_gate.present() ? 4 : 1);
  against_the_reference(start, [&](const Case& expected, const Case& got) {
    expect_close(got.result(), expected.y, ulps, [&](index k) { return terms_of(start, k); },
                 {.nan = start.not_finite});
    EXPECT_TRUE(got.result().gaps_untouched() && got.x.gaps_untouched() && got.rows.gaps_untouched());
  });
}

// Rows that no token names are NaN; shared and gate by `parts`: 0 none, 1 shared, 2 both.
Case make(DType type, DType to, index tokens, index top_k, index dim, int parts, Layout layout, Rng& rng) {
  const index rows = tokens * top_k + 3;
  Case c{.x = {type, {rows, dim}, {.row_gap = dim % 4, .misaligned = layout.misaligned}},
         .rows = {DType::i32, {tokens, top_k}, layout},
         .weights = {DType::f32, {tokens, top_k}, {.row_gap = layout.row_gap, .misaligned = 0}},
         .y = {to, {tokens, dim}, layout}};
  c.x.poison();
  c.weights.uniform(rng, -1, 1);
  for (index k = 0; k < tokens * top_k; ++k) {
    const index row = rows - 1 - k * 7 % (tokens * top_k);
    c.rows.set(k, static_cast<double>(row));
    for (index i = 0; i < dim; ++i) c.x.set(row * dim + i, std::uniform_real_distribution<double>(-1, 1)(rng));
  }
  if (parts > 0) c.shared = Tensor<2>(type, {tokens, dim}, layout).uniform(rng);
  if (parts > 1) c.shared_gate = Tensor<2>(dim % 2 ? type : DType::f32, {tokens, 1}, layout).uniform(rng, -6, 6);
  c.y.poison();
  return c;
}

TEST(moe_combine, sweep) {
  Rng rng(1);
  std::size_t turn = 0;
  for (DType type : float_types)
    for (DType to : {DType::f32, type})
      for (index dim : sizes)
        for (index tokens : row_counts) {
          const index top_k = std::array{1, 2, 4, 8, 3}[turn % 5];
          const int parts = static_cast<int>(turn % 3);
          Case c = make(type, to, tokens, top_k, dim, parts, layouts[turn % 3], rng);
          c.in_place = parts > 0 && to == type && turn % 4 == 0;
          ++turn;
          ASSERT_NO_FATAL_FAILURE(compare(c));
        }
}

// Rows that are cut for threads or groups, and the rest behind the last cut.
TEST(moe_combine, long_rows) {
  Rng rng(2);
  for (DType type : {DType::f32, DType::bf16})
    for (index dim : {cpu::combine_piece - 1, 2 * cpu::combine_piece + 3, index{7168}})
      ASSERT_NO_FATAL_FAILURE(compare(make(type, type, 2, 8, dim, 2, {}, rng)));
}

TEST(moe_combine, many_tokens) {
  Rng rng(3);
  ASSERT_NO_FATAL_FAILURE(compare(make(DType::f16, DType::f16, 200, 6, 72, 1, {}, rng)));
}

// One row of x for several tokens, and for several choices of one.
TEST(moe_combine, rows_that_are_named_twice) {
  Rng rng(4);
  Case c = make(DType::f32, DType::f32, 4, 3, 40, 0, {}, rng);
  c.x.uniform(rng);
  for (index k = 0; k < 12; ++k) c.rows.set(k, static_cast<double>(k % 2));
  ASSERT_NO_FATAL_FAILURE(compare(c));
}

TEST(moe_combine, by_hand) {
  const auto expect = [&](auto&& run) {
    Tensor<2> x(DType::f32, {3, 2}), rows(DType::i32, {2, 2}), weights(DType::f32, {2, 2}), shared(DType::f32, {2, 2});
    Tensor<2> gate(DType::f32, {2, 1}), y(DType::f32, {2, 2});
    const double of_x[] = {1, 2, 10, 20, 100, 200}, of_rows[] = {2, 0, 1, 1}, of_weights[] = {0.5, 3, 0.25, -1};
    const double of_shared[] = {4, 8, 16, 32}, of_y[] = {50 + 3 + 2, 100 + 6 + 4, -7.5 + 16, -15 + 32};
    for (index k = 0; k < 6; ++k) x.set(k, of_x[k]);
    for (index k = 0; k < 4; ++k) rows.set(k, of_rows[k]), weights.set(k, of_weights[k]), shared.set(k, of_shared[k]);
    gate.set(0, 0), gate.set(1, 100);
    ASSERT_TRUE(ok(run(
        MoeCombine<Host>{.x = x, .rows = rows, .weights = weights, .shared = shared, .shared_gate = gate, .y = y})));
    for (index k = 0; k < 4; ++k) EXPECT_EQ(y.get(k), of_y[k]) << k;
  };
  Reference reference;
  expect([&](const auto& op) { return run(reference, op); });
  on_every_backend([&](const std::string&, auto run) { expect(run); });
}

// The order of a token's choices is that of the sum: 1e8 and -1e8 leave what comes after them, and lose what came
// before.
TEST(moe_combine, sums_in_the_order_of_the_choices) {
  on_every_backend([&](const std::string& backend, auto run) {
    if (backend == "test device") return;  // the reference's sums are in double
    Tensor<2> x(DType::f32, {3, 40}), rows(DType::i32, {2, 3}), weights(DType::f32, {2, 3}), y(DType::f32, {2, 40});
    for (index k = 0; k < 120; ++k) x.set(k, k < 40 ? 1e8 : k < 80 ? -1e8 : 1);
    const double order[] = {0, 1, 2, 2, 0, 1};
    for (index k = 0; k < 6; ++k) rows.set(k, order[k]);
    weights.fill(1);
    ASSERT_TRUE(ok(run(MoeCombine<Host>{.x = x, .rows = rows, .weights = weights, .y = y})));
    for (index k = 0; k < 80; ++k) ASSERT_EQ(y.get(k), k < 40 ? 1 : 0) << k;
  });
}

// A gate of any size is a factor of 0 to 1, and what is not finite reaches its own elements alone.
TEST(moe_combine, large_gates_and_what_is_not_finite) {
  Rng rng(5);
  const double infinity = std::numeric_limits<double>::infinity();
  Case c = make(DType::f32, DType::f32, 6, 2, 24, 2, {}, rng);
  const double gates[] = {-200, 200, -infinity, infinity, std::nan(""), 0};
  for (index t = 0; t < 6; ++t) c.shared_gate.set(t, gates[t]);
  c.x.set(static_cast<index>(c.rows.get(0)) * 24 + 5, std::nan(""));
  c.x.set(static_cast<index>(c.rows.get(3)) * 24 + 7, infinity);
  c.weights.set(0, 0);  // 0 times NaN is NaN
  c.not_finite = true;
  ASSERT_NO_FATAL_FAILURE(compare(c));
}

TEST(moe_combine, refuses_rows_outside_x_before_anything_is_written) {
  Rng rng(6);
  Case c = make(DType::f32, DType::f32, 3, 2, 8, 0, {}, rng);
  c.y.fill(-5);
  for (index bad : {index{9}, index{-1}, index{1000000}})
    for (index place : {0, 3, 5}) {
      Case wrong = c;
      wrong.rows.set(place, static_cast<double>(bad));
      const std::string field = "rows[" + std::to_string(place / 2) + "," + std::to_string(place % 2) + "]";
      expect_refused(wrong.op(), {field, std::to_string(bad), "0..8"});
      on_every_backend([&](const std::string&, auto run) {
        EXPECT_FALSE(run(wrong.op()).ok());
        for (index k = 0; k < wrong.y.size(); ++k) ASSERT_EQ(wrong.y.get(k), -5);
      });
    }
}

TEST(moe_combine, refuses_what_the_contract_does_not_cover) {
  Rng rng(7);
  Case c = make(DType::bf16, DType::bf16, 3, 2, 8, 2, {}, rng);
  const Refused refused(c.op());
  Tensor<2> codes(DType::i8, {9, 8}), ids(DType::i64, {3, 2}), none(DType::i32, {3, 0}), no_weights(DType::f32, {3, 0});
  Tensor<2> three(DType::f32, {3, 3}), half(DType::f16, {3, 8}), wide(DType::bf16, {3, 9}), two(DType::f32, {3, 2});
  Tensor<2> four(DType::bf16, {4, 8});
  refused([&](auto& op) { op.x = codes; }, {"x", "i8", "f32"});
  refused([&](auto& op) { op.rows = ids; }, {"rows", "i64", "i32"});
  refused([&](auto& op) { op.rows = none, op.weights = no_weights; }, {"rows", "top_k", "1"});
  refused([&](auto& op) { op.weights = three; }, {"weights", "[3, 3]", "[3, 2]"});
  refused([&](auto& op) { op.weights.dtype = DType::i32; }, {"weights", "i32", "f32"});
  refused([&](auto& op) { op.shared = half; }, {"shared", "f16", "bf16"});
  refused([&](auto& op) { op.shared = wide; }, {"shared", "[3, 9]", "[3, 8]"});
  refused([&](auto& op) { op.shared = {}; }, {"shared_gate", "without shared"});
  refused([&](auto& op) { op.shared_gate = two; }, {"shared_gate", "[3, 2]", "[3, 1]"});
  refused([&](auto& op) { op.shared_gate.dtype = DType::i32; }, {"shared_gate", "i32", "f32"});
  refused([&](auto& op) { op.y = half; }, {"y", "f16", "bf16"});
  refused([&](auto& op) { op.y = four; }, {"[4, 8]", "[3, 8]"});
  refused([&](auto& op) { op.y.data = c.x.data<bf16>(); }, {"y", "overlaps", "x"});
  refused([&](auto& op) { op.y.data = c.shared.data<bf16>() + 8; }, {"y", "overlaps", "shared"});
  refused.allows([&](auto& op) { op.y = c.shared; });
  refused.allows([&](auto& op) { op.shared_gate = {}; });
}

}  // namespace
}  // namespace inlay::test
