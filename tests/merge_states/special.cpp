// Parts without keys, lse that are no numbers, and answers known otherwise.
#include <inlay/ops/flash_attention.hpp>

#include "tests/merge_states/case.hpp"

namespace inlay::test {
namespace {

// A part without keys is neutral, whatever lies in its place.
TEST(merge_states, parts_that_saw_nothing_are_left_out) {
  Rng rng(4);
  on_every_backend([&](const std::string&, auto run) {
    Case three = make(DType::f32, DType::f32, {3, 2, 2, 33}, {}, rng, 0);
    for (index r = 0; r < 4; ++r) {
      three.part_lse.set(4 + r, -infinity);  // of the three, the one in the middle
      for (index d = 0; d < 33; ++d) three.parts.set((4 + r) * 33 + d, d % 2 ? std::nan("") : infinity);
    }
    Case two = three;
    MergeStates<Host> op = two.op();
    op.partial_out.extents[0] = op.partial_lse.extents[0] = 2;
    op.partial_out.strides[0] *= 2, op.partial_lse.strides[0] *= 2;
    ASSERT_TRUE(ok(run(three.op())));
    ASSERT_TRUE(ok(run(op)));
    expect_equal(three.out, two.out);
    expect_equal(three.lse, two.lse);

    three.part_lse.fill(-infinity);
    three.out.poison(), three.lse.poison();
    ASSERT_TRUE(ok(run(three.op())));
    for (index k = 0; k < three.out.size(); ++k) ASSERT_EQ(three.out.get(k), 0);
    for (index k = 0; k < three.lse.size(); ++k) ASSERT_EQ(three.lse.get(k), -infinity);
  });
}

// A part that saw keys counts, however little it weighs: its NaN is not lost with its weight.
TEST(merge_states, a_part_whose_weight_has_become_zero_is_not_left_out) {
  Rng rng(14);
  for (double bad : {infinity, std::nan("")}) {
    Case start = make(DType::f32, DType::f32, {2, 1, 3, 17}, {}, rng, 0);
    for (index h = 0; h < 3; ++h) start.part_lse.set(h, 0), start.part_lse.set(3 + h, -1e4);
    start.parts.set((3 + 1) * 17 + 16, bad);
    ASSERT_NO_FATAL_FAILURE(compare(start, {.nan = true}));
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      ASSERT_TRUE(ok(run(got.op())));
      for (index k = 0; k < 3 * 17; ++k) EXPECT_EQ(std::isnan(got.out.get(k)), k == 17 + 16) << k;
    });
  }
}

// +inf and NaN are no weights: the row is NaN whatever the other parts are, the reference's too. (+inf would be the
// sum of a score of +inf, which our attention calls NaN; FlashAttention-2 writes it for a row without keys, and for
// NaN.)
TEST(merge_states, an_lse_of_infinity_or_nan_makes_its_row_nan) {
  Rng rng(9);
  for (double bad : {infinity, std::nan("")})
    for (index states : {1, 2, 3})
      for (index place = 0; place < states; ++place) {
        SCOPED_TRACE(describe("part", place, bad));
        Case start = make(DType::f32, DType::f32, {states, 1, 5, 17}, {}, rng, 0);
        // The other parts' of the heads: finite, without keys, +inf, NaN; head 4 stays clean.
        const double others[] = {0.5, -infinity, infinity, std::nan("")};
        for (index h = 0; h < 4; ++h)
          for (index s = 0; s < states; ++s) start.part_lse.set(s * 5 + h, s == place ? bad : others[h]);
        ASSERT_NO_FATAL_FAILURE(compare(start, {.nan = true}));
        Reference reference;
        ASSERT_TRUE(ok(run(reference, start.op())));
        for (index h = 0; h < 5; ++h) {
          ASSERT_EQ(std::isnan(start.lse.get(h)), h < 4) << h;
          for (index d = 0; d < 17; ++d) ASSERT_EQ(std::isnan(start.out.get(h * 17 + d)), h < 4) << h;
        }
      }
}

TEST(merge_states, far_apart_and_not_finite) {
  Rng rng(5);
  on_every_backend([&](const std::string&, auto run) {
    Case c = make(DType::f32, DType::f32, {2, 1, 4, 17}, {}, rng, 0);
    const float lse[2][4] = {{1e5f, -1e5f, std::nanf(""), 1}, {-1e5f, 1e5f, 0, infinity_f32}};
    for (index h = 0; h < 4; ++h) c.part_lse.set(h, lse[0][h]), c.part_lse.set(4 + h, lse[1][h]);
    ASSERT_TRUE(ok(run(c.op())));
    for (index d = 0; d < 17; ++d) {
      EXPECT_EQ(c.out.get(d), c.parts.get(d));                     // the first part outweighs the second
      EXPECT_EQ(c.out.get(17 + d), c.parts.get(4 * 17 + 17 + d));  // and the second the first
      EXPECT_TRUE(std::isnan(c.out.get(2 * 17 + d)) && std::isnan(c.out.get(3 * 17 + d)));
    }
    EXPECT_EQ(c.lse.get(0), 1e5);
    EXPECT_EQ(c.lse.get(1), 1e5);
    EXPECT_TRUE(std::isnan(c.lse.get(2)) && std::isnan(c.lse.get(3)));
  });
}

// Attention over three parts of the keys, each written into its place, is attention over all of them.
TEST(merge_states, parts_of_attention_give_the_whole) {
  constexpr index queries = 3, heads = 2, dim = 16, keys = 90;
  constexpr index cuts[] = {0, 40, 40, keys};  // the part in the middle is empty
  Rng rng(6);
  Tensor<4> q(DType::f32, {1, queries, heads, dim}), k(DType::f32, {1, keys, 1, dim}), v(DType::f32, {1, keys, 1, dim}),
      whole(DType::f32, {1, queries, heads, dim});
  Tensor<3> whole_lse(DType::f32, {1, queries, heads});
  q.uniform(rng, -3, 3), k.uniform(rng, -3, 3), v.uniform(rng);
  Reference reference;
  const auto attend = [&](index first, index count, View<4> out, View<3> lse) {
    return run(reference, FlashAttention<Host>{.q = q,
                                               .k = k.view().slice(1, first, count),
                                               .v = v.view().slice(1, first, count),
                                               .out = out,
                                               .lse = lse,
                                               .scale = 0.25f});
  };
  ASSERT_TRUE(ok(attend(0, keys, whole, whole_lse)));
  on_every_backend([&](const std::string&, auto run) {
    Case c = make(DType::f32, DType::f32, {3, queries, heads, dim}, {}, rng, 0);
    for (index s = 0; s < 3; ++s)
      ASSERT_TRUE(
          ok(attend(cuts[s], cuts[s + 1] - cuts[s], c.parts.view().slice(0, s, 1), c.part_lse.view().slice(0, s, 1))));
    ASSERT_TRUE(ok(run(c.op())));
    // Both sides have rounded parts of at most 1 once more than the other.
    for (index i = 0; i < c.out.size(); ++i) ASSERT_NEAR(c.out.get(i), whole.get(i), 24 * epsilon(DType::f32));
    for (index i = 0; i < c.lse.size(); ++i)
      ASSERT_NEAR(c.lse.get(i), whole_lse.get(i), 24 * epsilon(DType::f32) * (1 + std::abs(whole_lse.get(i))));
  });
}

TEST(merge_states, reference_in_closed_form) {
  Reference reference;
  Rng rng(7);
  Case c = make(DType::f32, DType::f32, {2, 1, 1, 2}, {}, rng, 0);
  c.part_lse.set(0, 0), c.part_lse.set(1, static_cast<float>(std::log(3.0)));  // one key of weight 1, one of weight 3
  c.parts.set(0, 4), c.parts.set(1, -8), c.parts.set(2, 0), c.parts.set(3, 8);
  ASSERT_TRUE(ok(run(reference, c.op())));
  EXPECT_NEAR(c.out.get(0), 1, 1e-6);
  EXPECT_NEAR(c.out.get(1), 4, 1e-6);
  EXPECT_NEAR(c.lse.get(0), std::log(4.0), 1e-6);
}

}  // namespace
}  // namespace inlay::test
