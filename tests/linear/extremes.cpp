// Infinities, NaN, overflow of short outputs, subnormals; and what the contract refuses.
#include "tests/linear/case.hpp"
#include "tests/support/refused.hpp"

namespace inlay::test {
namespace {

// The x of a row meets no other row's, a channel's weight no other channel's, padding nobody.
TEST(linear, infinities_and_nan_stay_in_their_row_and_channel) {
  Rng rng(21);
  constexpr index n = 35;
  const auto ways = static_cast<index>(kinds.size());
  for (index turn = 0; turn < 8 * ways; ++turn) {
    const Types type = kinds[static_cast<std::size_t>(turn % ways)];
    const double bad =
        turn / ways % 2 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    const index k = turn / (2 * ways) % 2 ? 31 : 33;  // an odd k in the last lanes of a register, and behind it
    const index tokens = turn / (4 * ways) ? 6 : 14;  // one tile, and more
    Case start = make(type, tokens, n, k, {}, rng);
    start.x.set(3 * k + k - 1, bad);     // row 3, the k beside the padding
    start.x.set(5 * k, bad);             // row 5, the first: just behind the end of row 4
    start.rows.set(34 * k + 2, bad);     // channel 34, beside the padding
    start.rows.set(20 * k, bad);         // channel 20, the first: just behind the end of channel 19
    start.rows.set(7 * k + k - 1, 0.0);  // 0 * bad
    start.pack();
    Case expected = start.unrounded();
    Reference reference;
    ASSERT_TRUE(ok(run(reference, expected.op())));
    each_form(start, [&](const Case& got) {
      for (index t = 0; t < tokens; ++t)
        for (index i = 0; i < n; ++i) {
          const double g = got.y.get(t * n + i), e = expected.y.get(t * n + i);
          ASSERT_EQ(std::isfinite(g), t != 3 && t != 5 && i != 34 && i != 20) << t << ' ' << i;
          if (!std::isfinite(e)) {
            ASSERT_TRUE(g == e || (std::isnan(g) && std::isnan(e))) << t << ' ' << i;
          }
        }
      ASSERT_TRUE(std::isnan(got.y.get(3 * n + 7)));
    });
  }
}

TEST(linear, short_outputs_overflow_to_infinity_and_not_before) {
  Rng rng(22);
  Case start = make({DType::f16, DType::f16, DType::f16}, 2, 18, 4, {}, rng);
  start.x.fill(128);
  start.rows.fill(0);
  const double answers[] = {65504, 65504, std::numeric_limits<double>::infinity(), -65504};
  const double weights[4][4] = {
      {511.75, 0, 0, 0}, {256, 255.75, 0, 0.109375}, {256, 255.875, 0, 0}, {-512, 0.25, 0, 0}};
  for (index c = 0; c < 4; ++c)
    for (index k = 0; k < 4; ++k) start.rows.set((c + 14) * 4 + k, weights[c][k]);  // the last channels
  start.pack();
  each_form(start, [&](const Case& got) {
    for (index t = 0; t < 2; ++t)
      for (index c = 0; c < 18; ++c) ASSERT_EQ(got.y.get(t * 18 + c), c < 14 ? 0 : answers[c - 14]) << c;
  });
}

TEST(linear, subnormals) {
  Rng rng(23);
  for (const Types& type : kinds)
    for (index k : subnormal_sizes)
      for (Form form : {Form::packed, Form::rows}) {
        Case c = make(type, 3, 33, k, {}, rng);
        subnormals(k % 2 ? c.x : c.rows, rng, k % 3 == 0);
        c.pack();
        c.form = form;
        const Matrix walk = walks(c);
        const bool always = may_flush(type);
        with_and_without_flushing(c, [&](const Case& expected, const Case& got, double lost) {
          // For each term an operand, a product and a sum; all other factors are at most 1.
          const double all_lost = 3 * static_cast<double>(k) * (always ? smallest_normal() : lost);
          // Below the smallest normal number a rounding takes half a step whatever it rounds: of a product, of a sum.
          const double steps = static_cast<double>(2 * k + 2) * underflow(DType::f32);
          const auto scale = [&](index i) { return walk.data()[i] + steps / (walk_ulps * epsilon(DType::f32)); };
          expect_close(got.y, expected.y, walk_ulps, scale, {.lost = all_lost});
        });
      }
}

TEST(linear, refuses_what_the_contract_does_not_cover) {
  Rng rng(24);
  Case c = make(kinds[0], 2, 20, 8, {}, rng);
  const Refused refused(c.op());
  refused([&](auto& op) { op.weight = {}; }, {"weight", "must be given"});
  refused([&](auto& op) { op.weight_rows = c.rows; }, {"weight", "left out"});
  refused([&](auto& op) { op.weight.extents[0] = 1; }, {"weight", "[1, 8, 16]", "[2, 8, 16]"});
  refused([&](auto& op) { op.weight.dtype = DType::bf16; }, {"weight", "[2, 8, 16]", "[2, 4, 32]"});
  refused([&](auto& op) { op.weight.strides[1] = 17; }, {"weight", "contiguous"});
  refused([&](auto& op) { op.weight.dtype = DType::i8; }, {"weight", "i8", "f32 f16 bf16"});
  refused([&](auto& op) { op.y.dtype = DType::f16; }, {"y", "f16", "f32"});
  refused([&](auto& op) { op.y.extents[0] = 3; }, {"y", "3", "2"});
  refused([&](auto& op) { op.y.data = c.x.data<float>(); }, {"y", "overlaps", "x"});
  refused([&](auto& op) { op.weight = {}, op.weight_rows = c.rows, op.weight_rows.extents[1] = 7; },
          {"weight_rows", "[20, 7]", "[20, 8]"});
  Tensor<1> seven(DType::f32, {7});
  refused([&](auto& op) { op.bias = seven; }, {"bias", "7", "20"});
  refused([&](auto& op) { op.x.data = nullptr; }, {"x", "null"});
  refused([&](auto& op) { op.compute = static_cast<LinearCompute>(2); }, {"compute", "2", "0..1"});
}

TEST(linear, wants_its_workspace) {
  Rng rng(25);
  Case c = make(kinds[0], 2, 20, 8, {}, rng);
  const Status status = run(Cpu(serial()), c.op());
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("workspace"), std::string_view::npos);
}

}  // namespace
}  // namespace inlay::test
