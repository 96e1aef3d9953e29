#include "cpu_kernels/support/elementwise.hpp"
#include "tests/merge_states/case.hpp"
#include "tests/support/refused.hpp"

namespace inlay::test {
INLAY_RUNS_OF(MergeStates);

namespace {

using cpu::elementwise_grain;

TEST(merge_states, sweep) {
  Rng rng(1);
  for (DType type : float_types)
    for (DType out : float_types)
      for (index dim : sizes)
        for (const Layout& layout : layouts) {
          const index states = 1 + dim % 5, tokens = dim % 4, heads = 1 + dim % 3;
          ASSERT_NO_FATAL_FAILURE(compare(make(type, out, {states, tokens, heads, dim}, layout, rng, dim % 2)));
        }
}

TEST(merge_states, head_dims_and_many_states) {
  Rng rng(2);
  for (index dim : head_dims)
    for (index states : {2, 33})
      ASSERT_NO_FATAL_FAILURE(compare(make(DType::f16, DType::f16, {states, 3, 7, dim}, {}, rng)));
  for (DType type : float_types)
    for (index states : {3, 16, 17, 64, 65, 200})
      ASSERT_NO_FATAL_FAILURE(compare(make(type, DType::f32, {states, 2, 3, 19}, layouts[1], rng)));
}

// Rows beyond what one thread takes at a time, by tokens and by heads, to the last one.
TEST(merge_states, rows_beyond_a_grain) {
  Rng rng(10);
  for (index states : {1, 3, 40})
    for (index dim : {1, 33})
      for (index more : {-1, 0, 1}) {
        const index rows = 3 * (elementwise_grain / (states * dim + 1) + 1) + more;
        ASSERT_NO_FATAL_FAILURE(compare(make(DType::f32, DType::bf16, {states, rows, 1, dim}, {}, rng, 0)));
        ASSERT_NO_FATAL_FAILURE(compare(make(DType::bf16, DType::f32, {states, 1, rows, dim}, {}, rng, 1)));
      }
}

// Shares from 1 to nothing, the largest in every place: parts without keys before it, behind it and between.
TEST(merge_states, far_apart_lse_in_every_place) {
  Rng rng(11);
  for (index states : {2, 3, 9})
    for (index place = 0; place < states; ++place)
      for (double below : {0.5, 20.0, 90.0, 1e4, infinity}) {
        Case c = make(DType::f32, DType::f32, {states, 2, 3, 17}, {}, rng, 0);
        for (index s = 0; s < states; ++s)
          for (index r = 0; r < 6; ++r) {
            c.part_lse.set(s * 6 + r, s == place ? 30.0 + static_cast<double>(r) : 30.0 - below);
            if (below == infinity && s != place)  // what was not seen
              for (index d = 0; d < 17; ++d) c.parts.set((s * 6 + r) * 17 + d, std::nan(""));
          }
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

// The parts need not lie in one tensor's order: the last one first.
TEST(merge_states, parts_in_any_order) {
  Rng rng(12);
  const Case start = make(DType::f16, DType::f32, {4, 2, 3, 20}, layouts[1], rng, 0);
  Case turned = start;
  for (index s = 0; s < 4; ++s) {
    for (index k = 0; k < 6; ++k) turned.part_lse.set(s * 6 + k, start.part_lse.get((3 - s) * 6 + k));
    for (index k = 0; k < 120; ++k) turned.parts.set(s * 120 + k, start.parts.get((3 - s) * 120 + k));
  }
  on_every_backend([&](const std::string&, auto run) {
    Case a = start, b = turned;
    MergeStates<Host> op = a.op();
    const auto backwards = [](auto& view) {
      view.data = view.slice(0, 3, 1).data;
      view.strides[0] = -view.strides[0];
    };
    backwards(op.partial_out), backwards(op.partial_lse);
    ASSERT_TRUE(ok(run(op)));
    ASSERT_TRUE(ok(run(b.op())));
    expect_equal(a.out, b.out);
    expect_equal(a.lse, b.lse);
  });
}

TEST(merge_states, lse_is_optional) {
  Rng rng(13);
  const Case start = make(DType::f32, DType::f32, {3, 2, 3, 20}, {}, rng);
  on_every_backend([&](const std::string&, auto run) {
    Case with = start, without = start;
    ASSERT_TRUE(ok(run(with.op())));
    MergeStates<Host> op = without.op();
    op.lse = {};
    ASSERT_TRUE(ok(run(op)));
    EXPECT_EQ(with.out, without.out);
    EXPECT_EQ(without.lse, start.lse);
  });
}

TEST(merge_states, one_part_comes_out_as_it_is) {
  Rng rng(3);
  on_every_backend([&](const std::string&, auto run) {
    Case c = make(DType::f16, DType::f16, {1, 2, 3, 65}, {}, rng, 0);
    ASSERT_TRUE(ok(run(c.op())));
    for (index k = 0; k < c.out.size(); ++k) ASSERT_EQ(c.out.get(k), c.parts.get(k));
    for (index k = 0; k < c.lse.size(); ++k) ASSERT_EQ(c.lse.get(k), c.part_lse.get(k));
  });
}

TEST(merge_states, refuses_what_the_contract_does_not_cover) {
  Rng rng(8);
  Case c = make(DType::f32, DType::f32, {2, 3, 4, 8}, {}, rng, 0);
  const Refused refused(c.op());
  refused([&](auto& op) { op.partial_out.extents[0] = op.partial_lse.extents[0] = 0; },
          {"partial_out", "no states", "at least 1"});
  refused([&](auto& op) { op.partial_lse.extents[2] = 3; }, {"partial_lse", "[2, 3, 3]", "[2, 3, 4]"});
  refused([&](auto& op) { op.out.extents[2] = 7; }, {"out", "[3, 4, 7]", "[3, 4, 8]"});
  refused([&](auto& op) { op.lse.extents[0] = 2; }, {"lse", "[2, 4]", "[3, 4]"});
  refused([&](auto& op) { op.partial_lse.dtype = DType::f16; }, {"partial_lse", "f16", "f32"});
  refused([&](auto& op) { op.out.dtype = DType::i8; }, {"out", "i8"});
  refused([&](auto& op) { op.out.data = c.parts.view().data; }, {"out", "overlaps", "partial_out"});
}

}  // namespace
}  // namespace inlay::test
